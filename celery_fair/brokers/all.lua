-- Carry out commands, and return their answers.
--
-- ARGV: 1 "1" if the others depend on the first: they are left out if that has found nothing; then for
--       each command how many words it has, and these.
local answers, at = {}, 2
while ARGV[at] do
    local last = at + tonumber(ARGV[at])
    answers[#answers + 1] = redis.call(unpack(ARGV, at + 1, last))
    if ARGV[1] == '1' and answers[1] == 0 then
        break
    end
    at = last + 1
end
return answers
