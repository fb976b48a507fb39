-- Takes from all buckets if each allows it, and from none otherwise: `domain::Quota::decide_all`. Returns how far each
-- bucket was from full before. A full bucket has no key, and a cost of 0 only reads.
-- KEYS: buckets of one user. ARGV: now, then cost and capacity of each bucket, in ms.
local now, debts, allowed = tonumber(ARGV[1]), {}, true
for i, bucket in ipairs(KEYS) do
  debts[i] = math.max((tonumber(redis.call('GET', bucket) or now) or now) - now, 0)
  allowed = allowed and debts[i] + tonumber(ARGV[2 * i]) <= tonumber(ARGV[2 * i + 1])
end
for i, bucket in ipairs(KEYS) do
  local cost = tonumber(ARGV[2 * i])
  if allowed and cost > 0 then
    local debt = debts[i] + cost
    redis.call('SET', bucket, string.format('%.0f', now + debt), 'PX', string.format('%.0f', debt))
  end
end
return debts
