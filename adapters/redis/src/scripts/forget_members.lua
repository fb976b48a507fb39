-- Removes members of a sorted set, unless they were written at or after a given time.
-- KEYS: the set. ARGV: the expiry that a write at that time sets, in ms, then the members.
for i = 2, #ARGV do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score and tonumber(score) < tonumber(ARGV[1]) then
    redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
