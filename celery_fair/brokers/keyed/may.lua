-- Ask whether a tenant may start a message, where the messages themselves are on another broker.
--
-- KEYS: 1 the queue's name here. ARGV: 1 the tenant, 2 what it may as the settings say, 3 seconds by
--       which starts may trail, 4 seconds of a place's lease, 5 the place's name.
-- Returns: {"place" if it has one of those that may run, else "token" if it has one of the leash, else
--       ""}; or {false, seconds until it may at the most, "inf" if nobody knows}.
redis.call('HDEL', base, '') -- who has written may write on, also when the server is full
local tenant = ARGV[1]
local may, has_place, has_token, held_until = passes(tenant, ARGV[2], tonumber(ARGV[3]))
local held = base .. ':held'
if not may then
    redis.call('ZADD', held, held_until, tenant) -- for who looks
    redis.call('EXPIRE', held, 3600)
    return { false, held_until == 'inf' and 'inf' or text(math.max(0, held_until - clock)) }
end
redis.call('ZREM', held, tenant)
if has_place then
    enter(tenant, ARGV[5], tonumber(ARGV[4]))
end
return { has_place and 'place' or has_token and 'token' or '' }
