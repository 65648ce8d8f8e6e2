-- What a tenant may start now: a pause, a cap and a leash of its own, for all workers together.
--
-- `usual` is what tenants may that have no limits of their own; see tags.lua for how it is written.
-- Times are the server's.
local time = redis.call('TIME')
local clock = tonumber(time[1]) + tonumber(time[2]) / 1000000

local function exists(name)
    return redis.call('EXISTS', base .. name) == 1
end

local own, live, some_paused = exists(':limits'), exists(':limited'), exists(':paused')

local function limits(tenant, usual)
    local said = own and redis.call('HGET', base .. ':limits', tenant) or usual
    local cap, rate, burst = string.match(said, '(%S+) (%S+) (%S+)')
    local set = live and redis.call('HGET', base .. ':limited', tenant)
    if set then
        local other = { string.match(set, '(%S+) (%S+) (%S+)') }
        cap = other[1] ~= '?' and other[1] or cap
        rate = other[2] ~= '?' and other[2] or rate
        burst = other[3] ~= '?' and other[3] or burst
    end
    return tonumber(cap), tonumber(rate), tonumber(burst) or 1 -- "-" is no number: nil
end

-- How long to wait for a token of a tenant's bucket; 0: there is one, and it is taken.
local function wait_for_token(tenant, rate, burst, slack)
    local key = base .. ':bucket:' .. tenant
    local stored = redis.call('HMGET', key, 'level', 'since')
    local level = tonumber(stored[1]) or burst
    local since = tonumber(stored[2]) or clock - slack - burst / rate
    since = math.min(since, clock + slack) -- further ahead only if the server's clock was set back
    local here = math.min(burst, level + math.max(0, clock - since) * rate)
    if here < 1 then
        return math.max(0.001, since + (1 - level) / rate - clock)
    end
    local from = math.max(clock, since)
    if clock - since - (1 - level) / rate >= slack then
        from = math.max(from, clock + slack - (burst - here) / rate)
    end
    redis.call('HSET', key, 'level', text(here - 1), 'since', text(from))
    redis.call('EXPIRE', key, math.min(math.ceil(burst / rate + slack) + 60, 1e9))
    return 0
end

-- Whether a tenant may start one. Returns besides whether that takes a place, and a token; else until
-- when it may not.
local function passes(tenant, usual, slack)
    if some_paused and redis.call('HEXISTS', base .. ':paused', tenant) == 1 then
        return false, false, false, 'inf'
    end
    local cap, rate, burst = limits(tenant, usual)
    local running = base .. ':running:' .. tenant
    if cap and redis.call('ZCARD', running) >= cap then
        redis.call('ZREMRANGEBYSCORE', running, '-inf', text(clock))
        if redis.call('ZCARD', running) >= cap then
            return false, false, false, redis.call('ZRANGE', running, 0, 0, 'WITHSCORES')[2]
        end
    end
    local wait = rate and wait_for_token(tenant, rate, burst, slack) or 0
    if wait > 0 then
        return false, false, false, text(clock + wait)
    end
    return true, cap ~= nil, rate ~= nil
end

-- A message of a tenant has a place, until it leaves it or its lease is over.
local function enter(tenant, named, lease)
    redis.call('ZADD', base .. ':running:' .. tenant, text(clock + lease), named)
    redis.call('EXPIRE', base .. ':running:' .. tenant, math.ceil(2 * lease))
end

-- A message of a tenant has its place no longer; if it did not start, its token is back, too.
local function leave(tenant, named, unused)
    redis.call('ZREM', base .. ':running:' .. tenant, named)
    local bucket = base .. ':bucket:' .. tenant
    if unused and redis.call('EXISTS', bucket) == 1 then
        redis.call('HINCRBYFLOAT', bucket, 'level', 1) -- more than fit are never counted
    end
    release(tenant)
end

-- Those whose time has come may try again.
local function release_due()
    if exists(':held') then
        for _, tenant in ipairs(redis.call('ZRANGEBYSCORE', base .. ':held', '-inf', text(clock), 'LIMIT', 0, 100)) do
            release(tenant)
        end
    end
end
