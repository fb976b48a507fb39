-- Keeps members of a sorted set alive.
-- KEYS: the set. ARGV: now, expiry and life in ms, then the members.
for i = 4, #ARGV do
  redis.call('ZADD', KEYS[1], ARGV[2], ARGV[i])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
