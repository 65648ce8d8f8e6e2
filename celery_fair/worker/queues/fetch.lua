-- Take messages of several queues in one step, and record each where kombu keeps what is not yet
-- acknowledged, so that a worker that dies right after loses none.
--
-- KEYS: 1 the hash of unacknowledged messages, 2 its index by time, then for each queue its lists,
--       the most urgent first.
-- ARGV: 1 now (seconds), 2 lists per queue, 3 what the tags begin with, then for each queue how many
--       messages are wanted, then the queues' names.
-- Returns for each queue: {messages left in its lists, message, message, ...}. The nth message of the
-- answer is recorded by a tag that ends in n, unless it is in a table of its own: such a one this
-- script cannot read. A message's own tag would not do: it has the same when
-- another worker takes it later, and each could acknowledge what the other holds. The record says
-- which queue it is to go back to: whoever restores it need not know the exchange.
local lists = tonumber(ARGV[2])
local answer, all, queues = {}, 0, (#ARGV - 3) / 2
for queue = 1, queues do
    local name = cjson.encode(ARGV[3 + queues + queue])
    local wanted = tonumber(ARGV[queue + 3])
    local taken, left = { 0 }, 0
    for list = 1, lists do
        local key = KEYS[2 + (queue - 1) * lists + list]
        while wanted > 0 do
            local raw = redis.call('RPOP', key)
            if not raw then
                break
            end
            wanted, all = wanted - 1, all + 1
            local readable = pcall(cjson.decode, raw)
            taken[#taken + 1] = readable and raw or { raw }
            if readable then
                local tag = ARGV[3] .. all
                redis.call('ZADD', KEYS[2], ARGV[1], tag)
                redis.call('HSET', KEYS[1], tag, '[' .. raw .. ', "", ' .. name .. ']')
            end
        end
        left = left + redis.call('LLEN', key)
    end
    taken[1] = left
    answer[queue] = taken
end
return answer
