-- Write a group, unless somebody else has written it since.
--
-- KEYS: 1 the group (a hash: version, text).
-- ARGV: 1 the version that was read, 2 the text.
-- Returns: 1 if it was written, else 0.
redis.call('HDEL', KEYS[1], '') -- who has written may write on, also when the server is full
local version = redis.call('HGET', KEYS[1], 'version') or '0'
if version ~= ARGV[1] then
    return 0
end
redis.call('HSET', KEYS[1], 'version', string.format('%d', version + 1), 'text', ARGV[2])
return 1
