-- The fence of a hold whose plain INCR found no counter.
-- KEYS: lock, fence
-- ARGV: token, for how many ms the counter stays, 1: lift it (see fence)
-- Returns the fence | -1 the hold is not ours any more
local L, F = KEYS[1], KEYS[2]
local memory, lift = tonumber(ARGV[2]), ARGV[3] == '1'
--@include clock
--@include counter
--@include memory
--@include fence
if call('GET', L) ~= ARGV[1] then
  remember()
  return -1
end
return (fence())
