-- Move messages of one of a key's lists to another list, each as it is to stand there, in one step; or
-- delete them.
--
-- KEYS: 1 the queue's name here, 2 the key's list, 3 where to. ARGV: 1 tenant, 2 part, 3 how many steps
--       of priority there are, these, then for each message, the next one first: as it stands, as it
--       is to stand; "" for one that is to be deleted.
-- Returns: how many were still there.
redis.call('HDEL', base, '') -- who has written may write on, also when the server is full
local tenant, part, count = ARGV[1], ARGV[2], tonumber(ARGV[3])
local steps = {}
for number = 1, count do
    steps[number] = ARGV[3 + number]
end
local moved = 0
for place = 4 + count, #ARGV, 2 do
    local told = ARGV[place + 1]
    if redis.call('LINDEX', KEYS[2], -1) == ARGV[place] then -- else a worker has it by now
        if told ~= '' then
            redis.call('LPUSH', KEYS[3], told) -- first: if that is no list, it ends here
        end
        redis.call('RPOP', KEYS[2])
        moved = moved + 1
    end
end
if moved > 0 then
    redis.call('HINCRBY', base, 'waiting', -moved)
end
if redis.call('EXISTS', unpack(lanes_of(tenant, part, steps))) == 0 then
    drop_both(tenant, part)
end
write_clocks()
return moved
