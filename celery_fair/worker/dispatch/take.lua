-- Take tokens from a bucket that many workers share, by the server's clock.
--
-- KEYS: 1 the bucket, 2 the members (a sorted set by the time they were last here), 3 those who were
--       refused and have had no token since (by the time of the refusal).
-- ARGV: 1 rate per second, 2 capacity, 3 tokens wanted (below zero: given back), 4 slack in seconds,
--       5 the member, 6 seconds after which a silent member counts as gone.
-- Returns: {1 if granted else 0, seconds until it is worth asking again (text), members}.
redis.call('HDEL', KEYS[1], '') -- who has written may write on, also when the server is full
local rate, capacity = tonumber(ARGV[1]), tonumber(ARGV[2])
local wanted, slack = tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000

redis.call('ZADD', KEYS[2], now, ARGV[5])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - tonumber(ARGV[6]))
local members = redis.call('ZCARD', KEYS[2])

-- The bucket, as in celery_fair/core/token_bucket.py; a new one is like one that has long been idle.
local stored = redis.call('HMGET', KEYS[1], 'level', 'since')
local level = tonumber(stored[1]) or capacity
local since = tonumber(stored[2]) or now - slack - capacity / rate
since = math.min(since, now + slack) -- further ahead only if the server's clock was set back
local here = math.min(capacity, level + math.max(0, now - since) * rate)

-- Who has waited longest was told when the token comes, as the others were; it has a moment for it.
local moment = 0.02
local first = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
local left = first and since + (1 - level) / rate + moment - now or 0
local yields = first ~= ARGV[5] and left > 0 and left <= moment and here < wanted + 1
if first and first ~= ARGV[5] and left <= 0 and here >= wanted then
    redis.call('ZREM', KEYS[3], first) -- it is busy, or gone
end

local granted, wait = 1, 0
if wanted < 0 then
    level = math.min(capacity, level - wanted)
elseif here >= wanted and yields then
    granted, wait = 0, left
elseif here >= wanted then
    local from = math.max(now, since)
    if now - since - (1 - level) / rate >= slack then
        from = math.max(from, now + slack - (capacity - here) / rate)
    end
    level, since = here - wanted, from
else
    granted, wait = 0, math.max(0, since + (wanted - level) / rate - now)
end
if granted == 0 then
    redis.call('ZADD', KEYS[3], 'NX', now, ARGV[5])
else
    redis.call('ZREM', KEYS[3], ARGV[5])
    redis.call('HSET', KEYS[1], 'level', string.format('%.17g', level), 'since', string.format('%.17g', since))
end
local idle = math.min(math.ceil(capacity / rate + slack) + 60, 1e9)
redis.call('EXPIRE', KEYS[1], idle)
redis.call('EXPIRE', KEYS[2], idle)
redis.call('EXPIRE', KEYS[3], idle)
return { granted, string.format('%.9f', wait), members }
