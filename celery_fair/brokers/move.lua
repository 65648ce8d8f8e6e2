-- Move a message that a worker holds to a list, in one step: it is neither lost nor there twice.
--
-- KEYS: 1 the hash of unacknowledged messages, 2 its index by time, 3 the list.
-- ARGV: 1 the delivery tag, 2 the message as it is to stand in the list, 3 LPUSH (behind all others)
--       or RPUSH (before them).
-- Returns 1, or 0 if nobody holds it any more: then it is somewhere already.
redis.call('HDEL', KEYS[1], '') -- who has written may write on, also when the server is full
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return 0
end
redis.call(ARGV[3], KEYS[3], ARGV[2]) -- first: if that key is no list, it ends here
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
