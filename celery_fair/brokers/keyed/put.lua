-- Put a message into its key's list at once.
--
-- KEYS: 1 the queue's name here. ARGV: 1 the tenant, 2 the part, 3 the list's ending, 4 the message.
redis.call('HINCRBY', base, 'waiting', 1)
arrive_both(ARGV[1], ARGV[2])
redis.call('LPUSH', base .. ':lane:' .. ARGV[1] .. '/' .. ARGV[2] .. ARGV[3], ARGV[4])
