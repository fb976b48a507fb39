-- Writes one connection of a user once more. Says whether it was there, how many the user has, and whether the user is
-- announced to be gone. This is what every connection costs again and again, so it asks as little as it can.
-- KEYS: user_connections, user_servers, user_presence.
-- ARGV: now, expiry and life in ms, connection@gateway, gateway, now as a text.
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
    -- Everything was lost. Whoever has connections all the while is not announced for that.
    redis.call('HSET', KEYS[3], 'announced', 'online')
    redis.call('PEXPIRE', KEYS[3], ARGV[3])
  end
end
return {known, others + 1, gone}
