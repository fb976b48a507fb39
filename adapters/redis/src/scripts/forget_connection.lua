-- Forgets what is known of a connection, unless it was written since.
-- KEYS: connection. ARGV: the first moment that is since, as a text.
local written_at = redis.call('HGET', KEYS[1], 'last_heartbeat')
if written_at and written_at < ARGV[1] then
  redis.call('DEL', KEYS[1])
end
