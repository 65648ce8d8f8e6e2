-- Claim a key for an owner, unless somebody has it but one that heard nothing of it.
--
-- KEYS: 1 the claim, 2 the epoch (a hash: at, server, expiry).
-- ARGV: 1 the owner, 2 milliseconds until the claim is forgotten, 3 1 if the epoch matters, 4 whose
-- claim is taken over.
-- Returns: {who had it or '', the epoch, now}; times in seconds since 1970, as text.
redis.call('HDEL', KEYS[2], '') -- who has written may write on, also when the server is full
local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2])
local epoch, server, expiry = unpack(redis.call('HMGET', KEYS[2], 'at', 'server', 'expiry'))
if expiry ~= ARGV[2] then
    epoch = false -- others may have claimed something for a shorter time
end
if not epoch or ARGV[3] == '1' then
    -- A server that was restarted may have lost its last claims, one that evicts keys any; and what
    -- another one was told, while it was the master, this one may lack that is the master again.
    local info = redis.pcall('INFO')
    local present = type(info) == 'string'
        and (string.match(info, 'run_id:(%w+)') or '?') .. ':' .. (string.match(info, 'evicted_keys:(%d+)') or '?')
        .. ':' .. (string.match(info, 'master_replid:(%w+)') or '?')
    if not epoch or not present or present ~= server then
        epoch = now
        redis.call('HSET', KEYS[2], 'at', epoch, 'server', present or '?', 'expiry', ARGV[2])
    end
end
local owner = redis.call('GET', KEYS[1])
if not owner or owner == ARGV[4] then
    owner = false
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return { owner or '', epoch, now }
