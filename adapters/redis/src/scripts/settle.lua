-- Ends claims. Who has changed meanwhile is due again. A claim that is another's by now is not ended; but what was
-- announced for the lost one may have overtaken what the other announced, so if it is not so any more the user is
-- looked at once more.
-- KEYS: presence_due, presence_claims. ARGV: now and life in ms, then for each user: who, the mark, 1 if it is
-- not so any more.
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
