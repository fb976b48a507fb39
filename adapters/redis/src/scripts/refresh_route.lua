-- Refreshes one connection of a user. Returns whether it was known, the user's number of connections, and whether the
-- user is announced as offline. It runs regularly for every connection, so it uses as few commands as possible.
-- KEYS: user_connections, user_servers, user_presence.
-- ARGV: now, expiry and time to live in ms, connection@gateway, gateway, now as a text.
local known, others, past = 0, 0, false
local members = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #members, 2 do
  if tonumber(members[i + 1]) <= tonumber(ARGV[1]) then
    past = true
  elseif members[i] == ARGV[4] then
    known = 1
  else
    others = others + 1
  end
end
for i = 1, 2 do
  if past then
    redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', ARGV[1])
  end
  redis.call('ZADD', KEYS[i], ARGV[2], ARGV[3 + i])
  redis.call('PEXPIRE', KEYS[i], ARGV[3])
end

local gone = 0
local is_recorded = redis.call('PEXPIRE', KEYS[3], ARGV[3]) == 1
if known == 0 or not is_recorded then
  redis.call('HSET', KEYS[3], 'status', 'online', 'device_count', others + 1, 'updated_at', ARGV[6])
  redis.call('HDEL', KEYS[3], 'last_seen')
  if is_recorded then
    gone = redis.call('HGET', KEYS[3], 'announced') == 'offline' and 1 or 0
  else
    -- The record was lost. A user who was connected all the time needs no announcement.
    redis.call('HSET', KEYS[3], 'announced', 'online')
    redis.call('PEXPIRE', KEYS[3], ARGV[3])
  end
end
return {known, others + 1, gone}
