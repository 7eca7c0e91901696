-- Releases an exclusive hold while its slot moves. Waiters find that out.
-- KEYS: lock
-- ARGV: token
-- Returns 1 | -1 it is not ours
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
return redis.call('DEL', KEYS[1])
