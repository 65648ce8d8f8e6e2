-- Tell what a worker has served, and hear what others have, where workers have tags of their own.
--
-- What is told is added up by key in a hash that goes on for a while, whoever tells it; then the next
-- one begins. Those before can be read. So each worker reads a hash once, however many have told it.
-- It goes on for longer if many tell something, and the server works as hard as before.
--
--   served        n: the number of the hash that goes on; from: since when, ms; for: how long, ms;
--                 told: how often something was told in it
--   served:<n>    costs by tenant
--
-- KEYS: 1 the queue's name here. ARGV: 1 the last hash that was read, "" for none, 2 how long one goes
--       on at the least, ms, 3 and for each time that something is told, 4 or for each tenant in it, 5 and at
--       the most, 6 seconds after which all of it is forgotten, 7 hashes that are read at the most,
--       then tenants and costs.
-- Returns: {the hash that goes on, how long it does, the last that was read, then what each holds}.
local state = KEYS[1] .. ':served'
redis.call('HDEL', state, '') -- who has written may write on, also when the server is full
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local number, since, long, told = unpack(redis.call('HMGET', state, 'n', 'from', 'for', 'told'))
number, since = tonumber(number or 0), tonumber(since or now)
long, told = tonumber(long or ARGV[2]), tonumber(told or 0)

if now >= since + long or now < since then -- or its clock was put back
    local size = redis.call('HLEN', state .. ':' .. number)
    long = math.max(tonumber(ARGV[2]), told * tonumber(ARGV[3]), size * tonumber(ARGV[4]))
    long = math.min(long, tonumber(ARGV[5]))
    number, since, told = number + 1, now, 0
end
redis.call('HSET', state, 'n', number, 'from', since, 'for', long, 'told', told + 1)
redis.call('EXPIRE', state, ARGV[6])
local served = state .. ':' .. number
for place = 8, #ARGV, 2 do
    redis.call('HINCRBYFLOAT', served, ARGV[place], ARGV[place + 1])
end
redis.call('EXPIRE', served, ARGV[6])

local last = tonumber(ARGV[1])
if not last or last >= number then -- it is new here, or the server has forgotten everything
    last = number - 1
end
last = math.max(last, number - 1 - tonumber(ARGV[7]))
local answer = { number, long, last }
for each = last + 1, number - 1 do
    answer[#answer + 1] = redis.call('HGETALL', state .. ':' .. each)
end
return answer
