-- Records the announced status of a user. Returns 1 if the status has changed meanwhile. A lost record is not
-- recreated, since a record with only this field would have no expiry.
-- KEYS: user_presence. ARGV: the status.
local status = redis.call('HGET', KEYS[1], 'status')
if not status then
  return 0
end
redis.call('HSET', KEYS[1], 'announced', ARGV[1])
return status == ARGV[1] and 0 or 1
