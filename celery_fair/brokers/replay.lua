-- Move a dead letter back to its queues, in one step: it is neither lost nor there twice.
--
-- KEYS: 1 the list that it is in, then the list of each queue.
-- ARGV: 1 the letter as it stands there, then the message for each of the queues' lists.
-- Returns 1, or 0 if it is not there any more: then somebody has replayed or removed it.
for i = 2, #KEYS do
    local kind = redis.call('TYPE', KEYS[i]).ok
    if kind ~= 'list' and kind ~= 'none' then  -- found out later, it would be lost
        return redis.error_reply('key ' .. KEYS[i] .. ' is no queue but a ' .. kind)
    end
end
if redis.call('LREM', KEYS[1], -1, ARGV[1]) == 0 then
    return 0
end
for i = 2, #KEYS do
    redis.call('LPUSH', KEYS[i], ARGV[i])
end
return 1
