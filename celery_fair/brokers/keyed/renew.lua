-- Renew the leases of messages' places.
--
-- KEYS: 1 the queue's name here. ARGV: 1 seconds, then the tenant and delivery tag of each.
-- Returns the number in ARGV of each whose lease was over, and whose place is taken from it.
redis.call('HDEL', base, '') -- who has written may write on, also when the server is full
local lost = {}
for place = 2, #ARGV, 2 do
    local running, named = base .. ':running:' .. ARGV[place], ARGV[place + 1]
    if redis.call('ZSCORE', running, named) then
        redis.call('ZADD', running, text(clock + ARGV[1]), named)
        redis.call('EXPIRE', running, math.ceil(2 * ARGV[1]))
    else
        lost[#lost + 1] = place
    end
end
return lost
