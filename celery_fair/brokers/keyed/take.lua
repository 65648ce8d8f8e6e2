-- Take the next message of a list, and record it where kombu keeps what is not yet acknowledged; comes
-- before pop.lua, and before the workers' fetch.lua.
--
-- Nothing of a script is undone if one of its commands is refused. So the message is recorded first, and
-- leaves its list last; if it may not, nobody holds it. The record says which queue it is to go back to:
-- whoever restores it need not know the exchange.
--
-- Returns whether it is recorded: not if Redis's JSON cannot read it.
local function take(list, raw, held, index, now, tag, queue)
    local readable = pcall(cjson.decode, raw)
    if readable then
        redis.call('ZADD', index, now, tag)
        redis.call('HSET', held, tag, '[' .. raw .. ', "", ' .. cjson.encode(queue) .. ']')
    end
    if type(redis.pcall('RPOP', list)) == 'table' then -- an error
        redis.call('HDEL', held, tag)
        redis.call('ZREM', index, tag)
        redis.call('RPOP', list) -- which says why
    end
    return readable
end
