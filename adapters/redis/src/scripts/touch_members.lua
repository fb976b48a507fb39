-- Refreshes members of a sorted set. Callers pass few enough members for Lua's stack limit.
-- KEYS: the set. ARGV: now, expiry and time to live in ms, then the members.
local scored = {}
for i = 4, #ARGV do
  table.insert(scored, ARGV[2])
  table.insert(scored, ARGV[i])
end
redis.call('ZADD', KEYS[1], unpack(scored))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
