-- Queues users with a presence change to announce. A claimed user keeps the claim, which records the next due time. For
-- users who came online the earliest time counts (LT), for users who went offline the latest.
-- KEYS: presence_due, presence_claims. ARGV: time to live in ms, due time, `LT` or `CH`, then the users.
for i = 4, #ARGV do
  local claim = redis.call('HGET', KEYS[2], ARGV[i])
  if claim and redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    redis.call('HSET', KEYS[2], ARGV[i], string.match(claim, '^%d*') .. ' ' .. ARGV[2])
  else
    redis.call('ZADD', KEYS[1], ARGV[3], ARGV[2], ARGV[i])
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
