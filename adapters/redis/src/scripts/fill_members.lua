-- Caches the members of a chat unless they were recently invalidated, which is marked by the empty value. This is
-- atomic: an invalidation either precedes and is seen here, or follows and overwrites the value.
-- KEYS: chat_members. ARGV: the value, its time to live in ms.
if redis.call('GET', KEYS[1]) ~= '' then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
