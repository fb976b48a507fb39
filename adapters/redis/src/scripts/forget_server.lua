-- Removes a dead gateway, unless it has sent a heartbeat meanwhile.
-- KEYS: servers. ARGV: gateway, its expiry in ms.
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if score and tonumber(score) == tonumber(ARGV[2]) then
  redis.call('ZREM', KEYS[1], ARGV[1])
end
