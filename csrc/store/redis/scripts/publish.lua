-- Another value for a hold of ours. Repeatable.
-- KEYS: lock, holders, permits, info
-- ARGV: token, its fence, ms for which we hold it, the value
-- Returns 1 | 0 it is not ours
local L, H, P, I = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
--@include clock
--@include state
if not holds(state(), ARGV[1]) then return 0 end
local note = (call('HGET', I, ARGV[1]) or ''):match('^%d+ %d+ ')
call('HSET', I, ARGV[1], (note or ARGV[2] .. ' '
  .. digits(now - ARGV[3]) .. ' ') .. ARGV[4])
if not note then
  call('PEXPIRE', I, math.max(call('PTTL', L), call('PTTL', I)) + 1000)
end
return 1
