-- Say which lane of RabbitMQ is a tenant's for what is to wait; see keyed/shared_lanes.py.
--
-- KEYS: 1 the queue's name here. ARGV: 1 the tenant, 2 a lane that is empty, "" for none.
-- Returns: the lane's number, or false if it has none.
local lanes, tenants = base .. ':spares', base .. ':spared'
local tenant, offered = ARGV[1], ARGV[2]
local number = redis.call('HGET', lanes, tenant)
if not number and offered == '' then
    return false
end
if not number then
    local before = redis.call('HGET', tenants, offered)
    if before then
        redis.call('HDEL', lanes, before)
    end
    redis.call('HSET', lanes, tenant, offered)
    redis.call('HSET', tenants, offered, tenant)
    number = offered
end
redis.call('EXPIRE', lanes, 86400)
redis.call('EXPIRE', tenants, 86400)
return tonumber(number)
