-- Messages have their places no longer, or tenants may try again: with an empty tag.
--
-- KEYS: 1 the queue's name here. ARGV: for each its tenant, its delivery tag, 1 if it did not start.
redis.call('HDEL', base, '') -- who has written may write on, also when the server is full
for place = 1, #ARGV, 3 do
    leave(ARGV[place], ARGV[place + 1], ARGV[place + 2] == '1')
end
write_clocks()
