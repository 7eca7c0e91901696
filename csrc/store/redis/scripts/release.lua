-- The uncontended release of an exclusive hold of which nothing was noted.
-- KEYS: lock, queue
-- ARGV: token
-- Returns 1 | -1 it is not ours | -2 somebody queues: use leave
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
if redis.call('EXISTS', KEYS[2]) == 1 then return -2 end
return redis.call('DEL', KEYS[1])
