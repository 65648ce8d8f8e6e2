-- Have something else stand in a dead letter's place.
--
-- KEYS: 1 the list that it is in. ARGV: 1 the letter as it stands there, 2 as it is to stand.
-- Returns 1, or 0 if it is not there any more: then somebody has replayed or removed it.
if redis.call('LINSERT', KEYS[1], 'BEFORE', ARGV[1], ARGV[2]) < 1 then
    return 0
end
return redis.call('LREM', KEYS[1], -1, ARGV[1])
