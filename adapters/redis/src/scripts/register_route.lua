-- Registers one connection of a user with its gateway, and sets the user online. Returns 1 if that was not announced.
-- KEYS: user_connections, user_servers, user_presence.
-- ARGV: now, expiry and time to live in ms, connection@gateway, gateway, now as a text.
for i = 1, 2 do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', ARGV[1])
  redis.call('ZADD', KEYS[i], ARGV[2], ARGV[3 + i])
  redis.call('PEXPIRE', KEYS[i], ARGV[3])
end
local count = redis.call('ZCARD', KEYS[1])
redis.call('HSET', KEYS[3], 'status', 'online', 'device_count', count, 'updated_at', ARGV[6])
redis.call('HDEL', KEYS[3], 'last_seen')
redis.call('PEXPIRE', KEYS[3], ARGV[3])
return redis.call('HGET', KEYS[3], 'announced') == 'online' and 0 or 1
