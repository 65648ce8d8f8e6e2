-- Read a group.
--
-- KEYS: 1 the group (a hash: version, text).
-- Returns: {version or '0', text or nil, now}; seconds since 1970 as text.
local time = redis.call('TIME')
local version, text = unpack(redis.call('HMGET', KEYS[1], 'version', 'text'))
return { version or '0', text, time[1] .. '.' .. string.format('%06d', time[2]) }
