-- Writes what is known of a connection. In one step, because a hash without an expiry would stay for ever.
-- KEYS: connection. ARGV: life in ms, then fields and values.
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
