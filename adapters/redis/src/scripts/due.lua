-- Puts users into the queue of those who are to be announced. Who is claimed keeps their place, and the claim notes
-- when they are due behind it. Of several comings the first counts (LT), of several goings the last.
-- KEYS: presence_due, presence_claims. ARGV: life in ms, when they are due, `LT` or `CH`, then the users.
for i = 4, #ARGV do
  local claim = redis.call('HGET', KEYS[2], ARGV[i])
  if claim and redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    redis.call('HSET', KEYS[2], ARGV[i], string.match(claim, '^%d*') .. ' ' .. ARGV[2])
  else
    redis.call('ZADD', KEYS[1], ARGV[3], ARGV[2], ARGV[i])
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
