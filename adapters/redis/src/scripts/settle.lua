-- Ends claims. Users who changed meanwhile are due again. If another worker holds the claim by now, it is not ended.
-- But the late announcement may have been received after that worker's, so if it is outdated, the user is checked
-- again.
-- KEYS: presence_due, presence_claims. ARGV: now and time to live in ms, then for each user: id, token of the claim, 1
-- if the announced status is outdated.
for i = 3, #ARGV, 3 do
  local user, mark, has_changed = ARGV[i], ARGV[i + 1], ARGV[i + 2] == '1'
  local held, due = string.match(redis.call('HGET', KEYS[2], user) or '', '^(%d+) ?(%d*)$')
  if held == mark then
    redis.call('HDEL', KEYS[2], user)
    if due ~= '' then
      redis.call('ZADD', KEYS[1], due, user)
    elseif has_changed then
      redis.call('ZADD', KEYS[1], ARGV[1], user)
    else
      redis.call('ZREM', KEYS[1], user)
    end
  elseif has_changed and held then
    redis.call('HSET', KEYS[2], user, held .. ' ' .. ARGV[1])
  elseif has_changed then
    redis.call('ZADD', KEYS[1], 'LT', ARGV[1], user)
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
