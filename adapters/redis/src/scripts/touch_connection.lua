-- Writes the details of a connection. This is atomic, because a hash without an expiry would stay permanently.
-- KEYS: connection. ARGV: time to live in ms, then fields and values.
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
