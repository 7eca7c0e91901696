-- An exclusive hold becomes a reader's, with its time and fence. Repeatable.
-- KEYS: lock, fence, queue, waiters, holders, permits, info, news
-- ARGV: token, its fence, ms for which we hold it,
--       for how many ms the counter stays, 1: lift it (see fence)
-- Returns {1 | 0 it is not ours, 1: call again at once}
local L, F, Q, W, H, P, I, N =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local token = ARGV[1]
local memory, lift = tonumber(ARGV[4]), ARGV[5] == '1'
--@include clock
--@include counter
--@include memory
--@include fence
--@include state
--@include channel
--@include standing
--@include kept
--@include place
--@include queue
--@include publish
--@include grant
local s = state()
if not holds(s, token) then return { 0, 0 } end
if s.mode == 'x' then
  local left = math.max(call('PTTL', L), 1)
  local gen = digits((fence()))
  s.mode, s.value, s.used, s.cap = 's', '~s' .. gen, 1, 0
  call('DEL', H, P)
  call('SET', L, s.value, 'PX', left)
  call('HSET', P, 'g', gen, token, 1, 'u', 1, 'cap', 0)
  call('ZADD', H, now + left, token)
  if not call('HGET', I, token) then
    call('HSET', I, token, ARGV[2] .. ' ' .. digits(now - ARGV[3]) .. ' ')
  end
  keep(left)
end
return { 1, let_in(s) }
