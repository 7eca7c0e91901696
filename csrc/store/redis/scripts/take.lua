-- Takes a free lock for an exclusive hold that publishes nothing, where the
-- counter is known: the usual acquire. It does not look at the queue.
-- KEYS: lock, fence
-- ARGV: token, ttl in ms
-- Returns the fence | what L holds | nil: the counter is missing, or not ours;
-- the script try says more, and there is no hold without a fence
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('GET', KEYS[1])
end
--@include range
local f = redis.pcall('INCRBY', KEYS[2], '1')
if type(f) == 'number' and f >= FIRST and f < END then return f end
redis.call('DEL', KEYS[1])
if f == 1 then redis.call('DEL', KEYS[2]) end -- it was missing: no time to live
return false
