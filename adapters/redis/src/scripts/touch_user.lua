-- Keeps one connection of a user alive, and its gateway with it. Says 1 if the connection was not there: what has expired
-- is gone first, so that it counts as such.
-- KEYS: user_connections, user_servers. ARGV: now, expiry and life in ms, connection@gateway, gateway.
local added = {}
for i, key in ipairs(KEYS) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', ARGV[1])
  added[i] = redis.call('ZADD', key, ARGV[2], ARGV[3 + i])
  redis.call('PEXPIRE', key, ARGV[3])
end
return added[1]
