-- Claims users from the queue, the longest due first. Each stays queued with the end of the claim as its due time, so
-- an unsettled claim expires automatically.
-- KEYS: presence_due, presence_claims. ARGV: now and end of the claim in ms, its token, limit, time to live in ms.
local users = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[4])
for _, user in ipairs(users) do
  redis.call('ZADD', KEYS[1], ARGV[2], user)
  redis.call('HSET', KEYS[2], user, ARGV[3])
end
if #users > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
  redis.call('PEXPIRE', KEYS[2], ARGV[5])
end
return users
