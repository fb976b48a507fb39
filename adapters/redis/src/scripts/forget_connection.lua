-- Deletes the details of a connection, unless they were written at or after a given time.
-- KEYS: connection. ARGV: that time, as a text.
local written_at = redis.call('HGET', KEYS[1], 'last_heartbeat')
if written_at and written_at < ARGV[1] then
  redis.call('DEL', KEYS[1])
end
