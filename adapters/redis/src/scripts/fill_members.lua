-- Remembers the members of a chat unless they were invalidated a moment ago, which is the empty value. In one step: an
-- invalidation comes either before and is seen here, or behind and takes the place of what is written.
-- KEYS: chat_members. ARGV: the value, its life in ms.
if redis.call('GET', KEYS[1]) ~= '' then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
