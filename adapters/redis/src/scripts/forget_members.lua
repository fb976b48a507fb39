-- Forgets members of a sorted set, unless they were written since.
-- KEYS: the set. ARGV: the least expiry of those that were, in ms, then the members.
for i = 2, #ARGV do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score and tonumber(score) < tonumber(ARGV[1]) then
    redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
