-- Records a heartbeat of a gateway. Returns 1 if the gateway was live before.
-- KEYS: servers. ARGV: now, expiry and time to live of the set in ms, gateway.
local before = redis.call('ZSCORE', KEYS[1], ARGV[4])
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return before and tonumber(before) > tonumber(ARGV[1]) and 1 or 0
