-- Keeps one connection of a user alive, and its gateway with it.
-- KEYS: user_connections, user_servers. ARGV: now, expiry and life in ms, connection@gateway, gateway.
for i, key in ipairs(KEYS) do
  redis.call('ZADD', key, ARGV[2], ARGV[3 + i])
  redis.call('ZREMRANGEBYSCORE', key, '-inf', ARGV[1])
  redis.call('PEXPIRE', key, ARGV[3])
end
