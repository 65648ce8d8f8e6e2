-- Say what waits of those tenants that come next, or of certain ones, without changing anything.
--
-- KEYS: 1 the queue's name here. ARGV: 1 now (seconds), 2 how many tenants at the most, of those that
--       wait and of those that are held, 3 what a tenant weighs that has no weight of its own, 4 what it
--       may that has no limits of its own, 5 how many steps of priority there are, these, then the
--       tenants, if it is not those that come next.
-- Returns: {tenants that have messages, {tenant, weight, messages, parts, how far its tag is ahead,
--       messages started in this minute and the one before, those that have a place, how many may,
--       how many a second, how many of them at once, for how long it is held, how many tenants come
--       before it}, ...}.
local minute = math.floor(tonumber(ARGV[1]) / 60)
local steps = {}
for number = 1, tonumber(ARGV[5]) do
    steps[number] = ARGV[5 + number]
end

local held = base .. ':held'
local answer = { redis.call('ZCARD', tenants.waiting) + redis.call('ZCARD', held) }
local v = virtual(tenants)
local found = {}
for number = 6 + #steps, #ARGV do
    found[#found + 1] = ARGV[number]
end
for _, which in ipairs(#found == 0 and { held, tenants.waiting } or {}) do
    for _, tenant in ipairs(redis.call('ZRANGE', which, 0, tonumber(ARGV[2]) - 1)) do
        found[#found + 1] = tenant
    end
end
for _, tenant in ipairs(found) do
    local only = redis.call('HGET', base .. ':only', tenant)
    local parts = only and { only } or redis.call('ZRANGE', parts_of(tenant).waiting, 0, -1)
    local messages = 0
    for _, part in ipairs(parts) do
        for _, list in ipairs(lanes_of(tenant, part, steps)) do
            messages = messages + redis.call('LLEN', list)
        end
    end
    local start = tag(tenants.waiting, tenant) or kept(tenants, tenant) or tag(tenants.finish, tenant) or v
    local ahead = math.max(0, start - v)
    local started = 0
    for ago = 0, 1 do
        started = started + (tag(base .. ':top:' .. minute - ago, tenant) or 0)
    end
    local cap, rate, burst = limits(tenant, ARGV[4])
    local paused = redis.call('HEXISTS', base .. ':paused', tenant) == 1 -- also if no worker knows yet
    local from = paused and math.huge or tag(held, tenant)
    answer[#answer + 1] = {
        tenant,
        text(weight(tenant, ARGV[3])),
        messages,
        #parts,
        text(ahead),
        started,
        redis.call('ZCOUNT', base .. ':running:' .. tenant, text(clock), 'inf'),
        cap and text(cap) or '',
        rate and text(rate) or '',
        text(burst),
        from and from > clock and (paused and 'inf' or text(from - clock)) or '',
        not paused and redis.call('ZRANK', tenants.waiting, tenant) or '',
    }
end
return answer
