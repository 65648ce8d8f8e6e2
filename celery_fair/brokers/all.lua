-- Carry out commands, and return their answers.
--
-- ARGV: for each command how many words it has, then these.
local answers, at = {}, 1
while ARGV[at] do
    local last = at + tonumber(ARGV[at])
    answers[#answers + 1] = redis.call(unpack(ARGV, at + 1, last))
    at = last + 1
end
return answers
