-- The fence of a hold whose plain INCR found no counter.
-- KEYS: lock, fence
-- ARGV: token
-- Returns the fence | -1 the hold is not ours any more
local L, F = KEYS[1], KEYS[2]
--@include clock
--@include fence
if call('GET', L) ~= ARGV[1] then
  if call('PTTL', F) == -1 then call('PEXPIRE', F, 86400000) end
  return -1
end
return (fence())
