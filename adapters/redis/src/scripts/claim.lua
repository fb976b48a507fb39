-- Takes users out of the queue, those who have waited longest first. Each stays in it at the moment at which the claim
-- ends, so one that nobody settles comes again by itself.
-- KEYS: presence_due, presence_claims. ARGV: now and end of the claim in ms, its mark, how many, life in ms.
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
