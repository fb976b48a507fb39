-- Takes one from a bucket if it may, and says how far the bucket was from full before: `domain::Quota::decide`.
-- A full bucket is no key at all.
-- KEYS: bucket. ARGV: now, interval and capacity in ms.
local now, interval, capacity = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local debt = math.max((tonumber(redis.call('GET', KEYS[1]) or now) or now) - now, 0)
if debt + interval <= capacity then
  redis.call('SET', KEYS[1], string.format('%.0f', now + debt + interval), 'PX', string.format('%.0f', debt + interval))
end
return debt
