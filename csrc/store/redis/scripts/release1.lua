-- Releases an exclusive hold while its slot moves. Waiters find that out.
-- KEYS: lock
-- ARGV: token
-- Returns 1 | -1 it is not ours
--@include alone
local value = redis.call('GET', KEYS[1])
if value ~= ARGV[1] then return not_alone(value) end
return redis.call('DEL', KEYS[1])
