-- Take messages of several queues in one step, and record each where kombu keeps what is not yet
-- acknowledged, so that a worker that dies right after loses none.
--
-- KEYS: 1 the hash of unacknowledged messages, 2 its index by time, then for each queue its lists,
--       the most urgent first.
-- ARGV: 1 now (seconds), 2 lists per queue, then for each queue how many messages are wanted.
-- Returns for each queue: {messages left in its lists, message, message, ...}.
local lists = tonumber(ARGV[2])
local answer = {}
for queue = 1, #ARGV - 2 do
    local wanted = tonumber(ARGV[queue + 2])
    local taken, left = { 0 }, 0
    for list = 1, lists do
        local key = KEYS[2 + (queue - 1) * lists + list]
        while wanted > 0 do
            local raw = redis.call('RPOP', key)
            if not raw then
                break
            end
            wanted = wanted - 1
            taken[#taken + 1] = raw
            -- What cannot be understood is handed over unrecorded: nobody could acknowledge it.
            local ok, tag, exchange, routing_key = pcall(function()
                local properties = cjson.decode(raw).properties
                local info = properties.delivery_info
                return properties.delivery_tag, cjson.encode(info.exchange), cjson.encode(info.routing_key)
            end)
            if ok and type(tag) == 'string' then
                redis.call('ZADD', KEYS[2], ARGV[1], tag)
                redis.call('HSET', KEYS[1], tag, '[' .. raw .. ', ' .. exchange .. ', ' .. routing_key .. ']')
            end
        end
        left = left + redis.call('LLEN', key)
    end
    taken[1] = left
    answer[queue] = taken
end
return answer
