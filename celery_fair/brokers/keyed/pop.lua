-- Take messages of a queue in the order of their tenants' tags, and record each where kombu keeps
-- what is not yet acknowledged, so that a worker that dies right after loses none.
--
-- KEYS: 1 the queue's name here, 2 the hash of unacknowledged messages, 3 its index by time, then the
--       queue's own lists, into which everybody publishes, the most urgent first.
-- ARGV: 1 now (seconds), 2 what the tags begin with, 3 messages wanted, 4 what each is charged,
--       5 what a tenant weighs that has no weight of its own, 6 a random number from 0 to 1,
--       7 how many messages are sorted at the most, 8 about how many bytes of them,
--       9 what a tenant may that has no limits of its own, 10 seconds by which starts may trail,
--       11 seconds of a place's lease, 12 the queue's name, 13 how many steps of priority there are,
--       these,
--       then how many messages have their places no longer, and for each: tenant, delivery tag, 1 if
--       it did not start,
--       then for each message that has been settled: tenant, part, finish tag, that of the part,
--       what it took more than it was charged, and 1 if it did not start.
-- Returns: {messages in lanes, messages unsorted, {message, tenant, part, finish tag, that of the
--       part, "place" if it has one of those that may run, else "token" if it has one of the leash,
--       else "", "first" if its tenant had nothing else waiting when it came, else ""}, ...}. The nth
--       message is recorded by a tag that ends in n, unless it has an eighth field: such a one this
--       script cannot read.
local now, prefix, wanted, charge, usual = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local drawn, most, bytes = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local permitted, slack, lease = ARGV[9], tonumber(ARGV[10]), tonumber(ARGV[11])
local queue, count = ARGV[12], tonumber(ARGV[13])
local steps = {}
for number = 1, count do
    steps[number] = ARGV[13 + number]
end
local limited = permitted ~= '- - -' or own or live or some_paused

-- Evenly spread draws of one random number: Redis's own generator begins anew with each script.
local function draw()
    drawn = (drawn + 0.6180339887498949) % 1
    return 0.5 + drawn
end

redis.call('HDEL', base, '') -- who has written may write on, also when the server is full
local unsorted = 0
for number, step in ipairs(steps) do
    local list = KEYS[3 + number]
    while most > 0 and bytes > 0 do
        local size = put(list, step)
        if not size then
            break
        end
        most, bytes = most - 1, bytes - size
    end
    unsorted = unsorted + redis.call('LLEN', list)
end

local place = 14 + count
local first_settled = place + 1 + 3 * tonumber(ARGV[place])
for number = place + 1, first_settled - 1, 3 do
    leave(ARGV[number], ARGV[number + 1], ARGV[number + 2] == '1')
end
release_due()
for place = first_settled, #ARGV, 6 do
    settle_both(
        ARGV[place],
        ARGV[place + 1],
        tonumber(ARGV[place + 2]),
        tonumber(ARGV[place + 3]),
        tonumber(ARGV[place + 4]),
        ARGV[place + 5] == '1',
        usual
    )
end

-- Those who may start nothing are passed over, some with each question: the server does nothing else.
local answer, turns, taken, started = {}, 0, 0, {}
while taken < wanted and turns < taken + 200 do
    turns = turns + 1
    local tenant, part, only = first()
    if not tenant then
        break
    end
    local lists = lanes_of(tenant, part, steps)
    local list, raw
    local may, has_place, has_token, held_until = true, false, false, nil
    if limited and redis.call('EXISTS', unpack(lists)) > 0 then
        may, has_place, has_token, held_until = passes(tenant, permitted, slack)
    end
    if not may then
        hold(tenant, held_until)
    end
    for _, each in ipairs(may and lists or {}) do
        if not raw then
            list, raw = each, redis.call('LINDEX', each, -1)
        end
    end
    if raw then
        taken = taken + 1
        started[tenant] = (started[tenant] or 0) + 1
        local named = prefix .. taken
        if has_place then
            enter(tenant, named, lease)
        end
        local recorded = take(list, raw, KEYS[2], KEYS[3], now, named, queue)
        local more = redis.call('EXISTS', unpack(lists)) > 0
        local finish, part_finish, begins = serve_both(tenant, part, only, charge, usual, more, draw)
        answer[taken + 2] = {
            raw,
            tenant,
            part,
            text(finish),
            text(part_finish),
            has_place and 'place' or has_token and 'token' or '',
            begins and 'first' or '',
            not recorded and 'unread' or nil,
        }
    elseif may then -- somebody has deleted its list
        drop_both(tenant, part)
    end
end

-- Whose messages were started in this minute, those who had most.
local minute = base .. ':top:' .. math.floor(tonumber(now) / 60)
for tenant, count in pairs(started) do
    redis.call('ZINCRBY', minute, count, tenant)
end
if taken > 0 then
    redis.call('HINCRBY', base, 'waiting', -taken)
    if redis.call('ZCARD', minute) > 400 then
        redis.call('ZREMRANGEBYRANK', minute, 0, -201)
    end
    redis.call('EXPIRE', minute, 150)
end
if redis.call('ZCARD', tenants.waiting) == 0 and not exists(':kept') then
    redis.call('HSET', base, 'waiting', 0) -- it may count what somebody has deleted
end
write_clocks()
answer[1] = tonumber(redis.call('HGET', base, 'waiting') or 0)
answer[2] = unsorted
return answer
