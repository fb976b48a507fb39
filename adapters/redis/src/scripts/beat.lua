-- Keeps a gateway alive. Says 1 if it was.
-- KEYS: servers. ARGV: now, expiry and life of the set in ms, gateway.
local before = redis.call('ZSCORE', KEYS[1], ARGV[4])
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return before and tonumber(before) > tonumber(ARGV[1]) and 1 or 0
