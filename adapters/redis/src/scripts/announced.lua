-- Notes what was announced of a user. Says 1 if it is not so any more. A record that was lost is not begun again: one that
-- held nothing but this would have no expiry.
-- KEYS: user_presence. ARGV: the status.
local status = redis.call('HGET', KEYS[1], 'status')
if not status then
  return 0
end
redis.call('HSET', KEYS[1], 'announced', ARGV[1])
return status == ARGV[1] and 0 or 1
