-- Forgets one connection of a user, and its gateway unless another live connection is there. In one step: a connection
-- that registers meanwhile is either seen here or brings the gateway back. A gateway that is not there is not added (XX):
-- it would have no expiry.
-- KEYS: user_connections, user_servers. ARGV: now in ms, connection@gateway, gateway.
redis.call('ZREM', KEYS[1], ARGV[2])
local youngest
local others = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf', 'WITHSCORES')
for i = 1, #others, 2 do
  local at = string.find(others[i], '@', 1, true)
  if at and string.sub(others[i], at + 1) == ARGV[3] then
    youngest = others[i + 1]
  end
end
if youngest then
  redis.call('ZADD', KEYS[2], 'XX', youngest, ARGV[3])
else
  redis.call('ZREM', KEYS[2], ARGV[3])
end
