-- Say what waits of those tenants that come next, without changing anything.
--
-- KEYS: 1 the queue's name here. ARGV: 1 now (seconds), 2 how many tenants at the most, 3 what a tenant
--       weighs that has no weight of its own, 4 how many steps of priority there are, these.
-- Returns: {tenants that have messages, {tenant, weight, messages, parts, how far its tag is ahead,
--       messages started in this minute and the one before}, ...}.
local minute = math.floor(tonumber(ARGV[1]) / 60)
local steps = {}
for number = 1, tonumber(ARGV[4]) do
    steps[number] = ARGV[4 + number]
end

local answer = { redis.call('ZCARD', tenants.waiting) }
local v = virtual(tenants)
for _, tenant in ipairs(redis.call('ZRANGE', tenants.waiting, 0, tonumber(ARGV[2]) - 1)) do
    local only = redis.call('HGET', base .. ':only', tenant)
    local parts = only and { only } or redis.call('ZRANGE', parts_of(tenant).waiting, 0, -1)
    local messages = 0
    for _, part in ipairs(parts) do
        for _, list in ipairs(lanes_of(tenant, part, steps)) do
            messages = messages + redis.call('LLEN', list)
        end
    end
    local ahead = math.max(0, tag(tenants.waiting, tenant) - v)
    local started = 0
    for ago = 0, 1 do
        started = started + (tag(base .. ':top:' .. minute - ago, tenant) or 0)
    end
    answer[#answer + 1] = { tenant, text(weight(tenant, ARGV[3])), messages, #parts, text(ahead), started }
end
return answer
