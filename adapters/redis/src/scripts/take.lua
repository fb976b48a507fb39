-- Takes from a bucket if it may, and says how far the bucket was from full before: `domain::Quota::decide`.
-- A full bucket is no key at all, and what costs nothing is a look.
-- KEYS: bucket. ARGV: now, cost and capacity in ms.
local now, cost, capacity = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local debt = math.max((tonumber(redis.call('GET', KEYS[1]) or now) or now) - now, 0)
if cost > 0 and debt + cost <= capacity then
  redis.call('SET', KEYS[1], string.format('%.0f', now + debt + cost), 'PX', string.format('%.0f', debt + cost))
end
return debt
