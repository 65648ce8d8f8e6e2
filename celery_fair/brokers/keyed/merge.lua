-- Put messages of the keys' lists back into the queue's own, each key's in their order.
--
-- KEYS: as of pop.lua. ARGV: 1 how many at the most, 2 how many steps of priority there are, these.
-- Returns: how many were put back.
redis.call('HDEL', base, '') -- who has written may write on, also when the server is full
local most, count = tonumber(ARGV[1]), tonumber(ARGV[2])
local steps = {}
for number = 1, count do
    steps[number] = ARGV[2 + number]
end
for _, tenant in ipairs(redis.call('HKEYS', tenants.kept)) do
    release(tenant)
end
while most > 0 do
    local tenant, part = first()
    if not tenant then
        redis.call('HSET', base, 'waiting', 0)
        break
    end
    local left = 0
    for number, list in ipairs(lanes_of(tenant, part, steps)) do
        while most > 0 and redis.call('LMOVE', list, KEYS[3 + number], 'RIGHT', 'LEFT') do
            redis.call('HINCRBY', base, 'waiting', -1)
            most = most - 1
        end
        left = left + redis.call('LLEN', list)
    end
    if left == 0 then
        drop_both(tenant, part)
    end
end
write_clocks()
return tonumber(ARGV[1]) - most
