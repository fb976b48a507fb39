-- Keeps members of a sorted set alive. There are few enough of them for the stack of one call.
-- KEYS: the set. ARGV: now, expiry and life in ms, then the members.
local scored = {}
for i = 4, #ARGV do
  table.insert(scored, ARGV[2])
  table.insert(scored, ARGV[i])
end
redis.call('ZADD', KEYS[1], unpack(scored))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
