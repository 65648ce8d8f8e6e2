-- Say which lane of RabbitMQ is a tenant's for what is to wait; see worker/queues/keyed/spare_lanes.py.
--
--   spares     the lane, by tenant
--   spared     the tenant, by lane; spared_at: when that was asked for last, seconds
--
-- KEYS: 1 the queue's name here. ARGV: 1 the tenant, 2 a lane that is empty, "" for none, 3 a lane that
--       is nobody's any more, "" for none, 4 seconds after which one that is empty may be another's.
-- Returns: the lane's number, or false if it has none: the one that is empty is another's by now.
redis.call('HDEL', base, '') -- who has written may write on, also when the server is full
local lanes, tenants, at = base .. ':spares', base .. ':spared', base .. ':spared_at'
local tenant, offered, given_up = ARGV[1], ARGV[2], ARGV[3]

local function give_up(number)
    local before = redis.call('HGET', tenants, number)
    if before and redis.call('HGET', lanes, before) == number then
        redis.call('HDEL', lanes, before)
    end
    redis.call('HDEL', tenants, number)
    redis.call('HDEL', at, number)
end

if given_up ~= '' then
    give_up(given_up)
end
local number = redis.call('HGET', lanes, tenant)
if not number then
    if offered == '' then
        return false
    end
    if tonumber(redis.call('HGET', at, offered) or 0) > clock - tonumber(ARGV[4]) then
        return false
    end
    give_up(offered)
    redis.call('HSET', lanes, tenant, offered)
    redis.call('HSET', tenants, offered, tenant)
    number = offered
end
redis.call('HSET', at, number, text(clock))
for _, key in ipairs({ lanes, tenants, at }) do
    redis.call('EXPIRE', key, 86400)
end
return tonumber(number)
