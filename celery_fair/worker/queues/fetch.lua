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
-- another worker takes it later, and each could acknowledge what the other holds.
redis.call('HDEL', KEYS[1], '') -- who has written may write on, also when the server is full
local lists, queues = tonumber(ARGV[2]), (#ARGV - 3) / 2
local answer, all = {}, 0
for queue = 1, queues do
    local wanted, name = tonumber(ARGV[3 + queue]), ARGV[3 + queues + queue]
    local taken, left = { 0 }, 0
    for list = 1, lists do
        local key = KEYS[2 + (queue - 1) * lists + list]
        while wanted > 0 do
            local raw = redis.call('LINDEX', key, -1)
            if not raw then
                break
            end
            wanted, all = wanted - 1, all + 1
            local recorded = take(key, raw, KEYS[1], KEYS[2], ARGV[1], ARGV[3] .. all, name)
            taken[#taken + 1] = recorded and raw or { raw }
        end
        left = left + redis.call('LLEN', key)
    end
    taken[1] = left
    answer[queue] = taken
end
return answer
