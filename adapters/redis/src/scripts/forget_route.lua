-- Removes one connection of a user, and its gateway unless another connection is on it. The user goes offline with the
-- last connection. Returns whether it removed the connection, and 1 if the user is offline and that was not announced.
-- This is atomic: a connection that registers meanwhile is either seen here or adds the gateway again. A missing
-- gateway is not added (XX), since its key would have no expiry.
-- KEYS: user_connections, user_servers, user_presence.
-- ARGV: now and time to live in ms, connection@gateway, gateway, last-seen time as a text. Optional: an expiry in ms; a
-- connection with this or a later expiry is kept, since it was written since.
local score = redis.call('ZSCORE', KEYS[1], ARGV[3])
if score and ARGV[6] and tonumber(score) >= tonumber(ARGV[6]) then
  return {0, 0}
end
redis.call('ZREM', KEYS[1], ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
local youngest
local others = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #others, 2 do
  local at = string.find(others[i], '@', 1, true)
  if at and string.sub(others[i], at + 1) == ARGV[4] then
    youngest = others[i + 1]
  end
end
if youngest then
  redis.call('ZADD', KEYS[2], 'XX', youngest, ARGV[4])
else
  redis.call('ZREM', KEYS[2], ARGV[4])
end

local record = redis.call('HMGET', KEYS[3], 'status', 'announced', 'updated_at')
local status, announced, updated_at = record[1], record[2], record[3]
-- Another connection may have updated the record later.
local seen = ARGV[5]
if updated_at and updated_at > seen then
  seen = updated_at
end
redis.call('HSET', KEYS[3], 'device_count', #others / 2, 'updated_at', seen)
if #others > 0 then
  if not status then
    redis.call('HSET', KEYS[3], 'status', 'online', 'announced', 'online')
  end
  redis.call('PEXPIRE', KEYS[3], ARGV[2])
  return {1, 0}
end
if status ~= 'offline' then
  redis.call('HSET', KEYS[3], 'status', 'offline', 'last_seen', seen)
end
-- The record of a user who was announced as offline already has its final expiry.
if announced == 'offline' then
  return {1, 0}
end
redis.call('PEXPIRE', KEYS[3], ARGV[2])
return {1, 1}
