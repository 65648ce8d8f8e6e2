-- Start-time fair queueing on sorted sets, as in celery_fair/core/tags.py, which says why; shared by
-- all workers of a queue. What is kept, each name after the queue's:
--
--   tags, finish       tenants that have messages, by start tag; those that are ahead and have none
--   parts:…, ahead:…   the same of a tenant's parts, if it has had more than one at a time
--   only               else: its part, by tenant
--   fresh              tenants and parts that were not charged since they began
--   lane:…             a part's messages, a list for each priority step
--   weights, set       by tenant, as the settings say, and as it was set live
--   limits, limited    the same of how many messages may run, how many may start a second and at
--                      once ("5 0.5 1"; - for any number, ? for what the settings say)
--   paused             tenants that may start nothing until they are resumed
--   held, kept         tenants that may start nothing for now, by until when, and their start tags
--   running:…          delivery tags of a tenant's messages that have a place, by when its lease ends
--   bucket:…           a tenant's token bucket, as in celery_fair/core/token_bucket.py
--   top:…              how many of a tenant's messages were started in that minute since 1970
--   (the name itself)  v: the virtual time; v/…: that of a tenant's parts; waiting: messages in lanes
--
-- KEYS: 1 the queue's name here. `steps` are the lists' endings, the most urgent first.
local base = KEYS[1]

local function text(number)
    return string.format('%.17g', number)
end

local tenants = {
    waiting = base .. ':tags',
    finish = base .. ':finish',
    kept = base .. ':kept',
    clock = 'v',
    mark = '',
}

local function parts_of(tenant)
    return {
        waiting = base .. ':parts:' .. tenant,
        finish = base .. ':ahead:' .. tenant,
        clock = 'v/' .. tenant,
        mark = tenant .. '/',
    }
end

-- Virtual times, read once and written once: `write_clocks` is each script's last word.
local clocks, advanced = {}, {}

local function virtual(level)
    if not clocks[level.clock] then
        clocks[level.clock] = tonumber(redis.call('HGET', base, level.clock) or 0)
    end
    return clocks[level.clock]
end

local function advance(level, v)
    clocks[level.clock], advanced[level.clock] = v, true
end

local function write_clocks()
    for clock in pairs(advanced) do
        redis.call('HSET', base, clock, text(clocks[clock]))
    end
end

local function tag(key, member)
    local score = redis.call('ZSCORE', key, member)
    return score and tonumber(score)
end

-- The start tag of who is held.
local function kept(level, key)
    return level.kept and tonumber(redis.call('HGET', level.kept, key))
end

local function arrive(level, key)
    if tag(level.waiting, key) or kept(level, key) then
        return
    end
    local start = math.max(virtual(level), tag(level.finish, key) or 0)
    redis.call('ZREM', level.finish, key)
    redis.call('SADD', base .. ':fresh', level.mark .. key)
    redis.call('ZADD', level.waiting, text(start), key)
end

local function forget(level, v)
    redis.call('ZREMRANGEBYSCORE', level.finish, '-inf', text(v))
end

local function finished(level, key, finish)
    local v = virtual(level)
    local nobody = redis.call('ZCARD', level.waiting) == 0
    if nobody and (not level.kept or redis.call('EXISTS', level.kept) == 0) then
        local last = redis.call('ZREVRANGE', level.finish, 0, 0, 'WITHSCORES')[2]
        v = math.max(v, finish, tonumber(last or 0))
        advance(level, v)
    elseif finish > v then
        redis.call('ZADD', level.finish, text(finish), key)
    end
    forget(level, v)
end

local lag = 2

local function serve(level, key, step, most, more, draw)
    local start = tag(level.waiting, key)
    local ahead = math.min(step / redis.call('ZCARD', level.waiting), most) / lag
    advance(level, math.max(virtual(level), start) + ahead)
    local begins = redis.call('SREM', base .. ':fresh', level.mark .. key) == 1
    if begins then
        step = step * draw()
    end
    local finish = start + step
    if more then
        redis.call('ZADD', level.waiting, text(finish), key)
    else
        redis.call('ZREM', level.waiting, key)
        finished(level, key, finish)
    end
    return finish, begins
end

local function settle(level, key, finish, step, unused, most)
    local waiting = unused and redis.call('ZCARD', level.waiting) or 0
    if waiting > 0 then
        forget(level, virtual(level))
        advance(level, virtual(level) + math.max(step / waiting, most) / lag)
    end
    local start = tag(level.waiting, key)
    if start then
        redis.call('ZADD', level.waiting, text(start + step), key)
        return
    end
    start = kept(level, key)
    if start then
        redis.call('HSET', level.kept, key, text(start + step))
        return
    end
    forget(level, virtual(level))
    local known = tag(level.finish, key) or finish
    redis.call('ZREM', level.finish, key)
    finished(level, key, known + step)
end

local function hold(tenant, from)
    redis.call('HSET', tenants.kept, tenant, text(tag(tenants.waiting, tenant)))
    redis.call('ZREM', tenants.waiting, tenant)
    redis.call('ZADD', base .. ':held', from, tenant)
end

local function release(tenant)
    redis.call('ZREM', base .. ':held', tenant)
    local start = kept(tenants, tenant)
    if start then
        redis.call('HDEL', tenants.kept, tenant)
        redis.call('ZADD', tenants.waiting, text(math.max(virtual(tenants), start)), tenant)
    end
end

local function drop(level, key)
    local start = tag(level.waiting, key) or kept(level, key)
    if start then
        redis.call('ZREM', level.waiting, key)
        if level.kept then
            redis.call('HDEL', level.kept, key)
            redis.call('ZREM', base .. ':held', key)
        end
        redis.call('SREM', base .. ':fresh', level.mark .. key)
        finished(level, key, start)
    end
end

-- Both levels ----------------------------------------------------------------------------

local weights = { base .. ':set', base .. ':weights' }
local present

local function weight(tenant, usual)
    if not present then
        present = {}
        for _, key in ipairs(weights) do
            if redis.call('EXISTS', key) == 1 then
                present[#present + 1] = key
            end
        end
    end
    for _, key in ipairs(present) do
        local own = redis.call('HGET', key, tenant)
        if own then
            return tonumber(own)
        end
    end
    return tonumber(usual)
end

local function lanes_of(tenant, part, steps)
    local lists = {}
    for number, step in ipairs(steps) do
        lists[number] = base .. ':lane:' .. tenant .. '/' .. part .. step
    end
    return lists
end

local function arrive_both(tenant, part)
    local only = redis.call('HGET', base .. ':only', tenant)
    local parts = parts_of(tenant)
    if not only and redis.call('EXISTS', parts.waiting) == 0 then
        redis.call('HSET', base .. ':only', tenant, part)
    elseif only ~= part then
        if only then
            redis.call('HDEL', base .. ':only', tenant)
            arrive(parts, only)
        end
        arrive(parts, part)
    end
    arrive(tenants, tenant)
end

local function forget_parts(tenant)
    local parts = parts_of(tenant)
    redis.call('HDEL', base .. ':only', tenant)
    redis.call('DEL', parts.waiting, parts.finish)
    redis.call('HDEL', base, parts.clock)
    clocks[parts.clock], advanced[parts.clock] = 0, nil
end

local function first()
    local tenant = redis.call('ZRANGE', tenants.waiting, 0, 0)[1]
    if not tenant then
        return nil
    end
    local only = redis.call('HGET', base .. ':only', tenant)
    return tenant, only or redis.call('ZRANGE', parts_of(tenant).waiting, 0, 0)[1] or '', only
end

local function serve_both(tenant, part, only, charge, usual, more, draw)
    local part_finish = 0
    if not only then
        local parts = parts_of(tenant)
        part_finish = serve(parts, part, charge, charge, more, draw)
        more = redis.call('ZCARD', parts.waiting) > 0
    end
    local step, most = charge / weight(tenant, usual), charge / weight('', usual)
    local finish, begins = serve(tenants, tenant, step, most, more, draw)
    if not more and only then
        redis.call('HDEL', base .. ':only', tenant)
    elseif not more then
        forget_parts(tenant)
    end
    return finish, part_finish, begins
end

local function settle_both(tenant, part, finish, part_finish, difference, unused, usual)
    local most = difference / weight('', usual)
    settle(tenants, tenant, finish, difference / weight(tenant, usual), unused, most)
    local parts = parts_of(tenant)
    if redis.call('EXISTS', parts.waiting) == 1 then
        settle(parts, part, part_finish, difference, unused, difference)
    end
end

local function drop_both(tenant, part)
    local parts = parts_of(tenant)
    drop(parts, part)
    local only = redis.call('HGET', base .. ':only', tenant)
    if only == part or not only and redis.call('EXISTS', parts.waiting) == 0 then
        forget_parts(tenant)
        drop(tenants, tenant)
    end
end

-- Messages -------------------------------------------------------------------------------

-- Whose a message is, as `read_key` in celery_fair/core/fair_key.py has it, and whether it goes first.
local function read(raw)
    local ok, message = pcall(cjson.decode, raw)
    if not ok or type(message) ~= 'table' or type(message.headers) ~= 'table' then
        return '', '', false
    end
    local key = message.headers['x-fair-key']
    if type(key) == 'number' and key == math.floor(key) and math.abs(key) < 1e15 then
        key = string.format('%d', key)
    elseif type(key) ~= 'string' then
        key = ''
    end
    if #key > 255 then
        key = redis.sha1hex(key)
    end
    local slash = string.find(key, '/', 1, true)
    local tenant, part = key, ''
    if slash then
        tenant, part = string.sub(key, 1, slash - 1), string.sub(key, slash + 1)
    end
    local given_back = type(message.properties) == 'table' and message.properties.ahead
    return tenant, part, given_back or message.headers.redelivered == true
end

-- Sort the next message of one of the queue's own lists; return its bytes, or nil if there is none.
-- It leaves that list last: a user who may not use one of these commands loses nothing.
local function put(list, step)
    local raw = redis.call('LINDEX', list, -1)
    if not raw then
        return nil
    end
    local tenant, part, ahead = read(raw)
    redis.call('HINCRBY', base, 'waiting', 1)
    arrive_both(tenant, part)
    local lane = base .. ':lane:' .. tenant .. '/' .. part .. step
    redis.call('LMOVE', list, lane, 'RIGHT', ahead and 'RIGHT' or 'LEFT')
    return #raw
end
