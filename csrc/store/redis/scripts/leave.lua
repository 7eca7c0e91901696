-- Release with hand-off; also cancels a wait: leave the queue, leave the
-- hold if it is ours, and let the next ones in.
-- KEYS: lock, fence, queue, waiters, holders, permits, info, news
-- ARGV: token, ms for which the hold must still last (0: ends now),
--       for how many ms the counter stays, 1: lift it (see fence)
-- Returns {1 if we held it, 1 to be called again at once, 1 if it was lifted}
local L, F, Q, W, H, P, I, N =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local token, rest = ARGV[1], tonumber(ARGV[2])
local memory, lift = tonumber(ARGV[3]), ARGV[4] == '1'
--@include clock
--@include counter
--@include fence
--@include state
--@include channel
--@include standing
--@include place
--@include queue
--@include grant
--@include write

local s = state()
local held = holds(s, token)
if not held then -- nobody both holds and waits
  leave_queue(token)
elseif rest > 0 then
  if s.mode == 'x' then
    call('PEXPIRE', L, rest)
  else
    write_first()
    call('ZADD', H, now + rest, token)
    settle(s)
  end
else
  let_go(s, token)
end
local more = let_in(s, held and rest <= 0)
return { held and 1 or 0, more, lifted }
