-- Give tags to lists that have messages and no tag: a fail-over has lost it, say.
--
-- KEYS: 1 the queue's name here. ARGV: 1 how long the names' common beginning is, 2 how many steps of
--       priority there are, these, then the lists.
redis.call('HDEL', base, '') -- who has written may write on, also when the server is full
local begin, count = tonumber(ARGV[1]), tonumber(ARGV[2])
for place = 3 + count, #ARGV do
    local list = ARGV[place]
    local name, longest = string.sub(list, begin + 1), ''
    for number = 1, count do
        local step = ARGV[2 + number]
        if #step > #longest and string.sub(name, -#step) == step then
            longest = step
        end
    end
    name = string.sub(name, 1, #name - #longest)
    local slash = string.find(name, '/', 1, true)
    if slash and redis.call('EXISTS', list) == 1 then
        local tenant, part = string.sub(name, 1, slash - 1), string.sub(name, slash + 1)
        if not tag(tenants.waiting, tenant) and not kept(tenants, tenant) then
            forget_parts(tenant)
        end
        arrive_both(tenant, part)
    end
end
write_clocks()
