-- Forgets one connection of a user, and its gateway unless another connection is there, and says whether it did. The
-- user is offline when none is left; says 1 if that was not announced. In one step: a connection that registers
-- meanwhile is either seen here or brings the gateway back. A gateway that is not there is not added (XX): it would
-- have no expiry.
-- KEYS: user_connections, user_servers, user_presence.
-- ARGV: now and life in ms, connection@gateway, gateway, until when the user was seen as a text, and if a connection
-- that was written since is to stay, the least expiry of those.
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
-- What was seen of them elsewhere may be later than what this connection shows.
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
-- The record of somebody who is announced to be gone has its end already.
if announced == 'offline' then
  return {1, 0}
end
redis.call('PEXPIRE', KEYS[3], ARGV[2])
return {1, 1}
