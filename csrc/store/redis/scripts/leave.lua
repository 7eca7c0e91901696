-- Releases a hold and hands it on; or cancels a wait.
-- KEYS: lock, fence, queue, waiters, holders, permits, info, news
-- ARGV: token, ms for which the hold must still last (0: ends now; -1: ends
--       now, and tell whether it was revoked),
--       for how many ms the counter stays, 1: lift it (see fence)
-- Returns {1: we held it, 1: call again at once, 1: it was lifted,
--          1: it was revoked}
--       | 1: the same as {1, 0, 0}
local L, F, Q, W, H, P, I, N =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local token, memory = ARGV[1], ARGV[3]
--@include clock
--@include channel
--@include publish
--@include memory
--@include hand

-- The usual end: an exclusive hold that nobody watches goes to the first of the
-- queue (hand). SET takes the place of DEL, and what follows is not made. If
-- that does not come about, L is deleted, and the first one, which is out of
-- the queue, is looked at again. ZPOPMIN comes first: a full server refuses SET
-- and INCRBY to a script that has written nothing.
local value, s = call('GET', L), nil
local usual = value == token and ARGV[2] == '0' and ARGV[4] == '0'
local beside = usual and redis.pcall('EXISTS', I, N)
if beside == 0 or beside == 1 and redis.pcall('EXISTS', N) == 0 then
  local first = redis.pcall('ZPOPMIN', Q)
  local heard, seen
  if first[1] then heard, seen = hand(first[1], first[2]) end
  if heard and heard ~= 0 then
    if beside == 1 then redis.pcall('DEL', I) end
    return 1
  end
  call('DEL', L, I)
  if not first[1] then return 1 end
  s = { value = false, used = 0, cap = 0, clean = true,
    first = not heard and first or nil, dead = heard and seen }
end

local rest, lift = tonumber(ARGV[2]), ARGV[4] == '1'
--@include counter
--@include fence
--@include state
--@include standing
--@include kept
--@include place
--@include queue
--@include grant
--@include write

if s then
  if s.dead then note_heard { seen = s.dead + 0 } end
  return { 1, let_in(s, true), lifted }
end
s = state(value)
local held = holds(s, token)
local revoked = rest < 0 and redis.pcall('HGET', I, '!' .. token) == '1'
if not held then -- nobody both holds and waits
  leave_queue(token)
elseif rest > 0 then
  if s.mode == 'x' then
    call('PEXPIRE', L, rest)
    call('PEXPIRE', I, rest + 1000) -- the note goes with it
  else
    write_first()
    call('ZADD', H, now + rest, token)
    settle(s)
  end
else
  let_go(s, token)
end
local more = let_in(s, held and rest <= 0)
return { held and 1 or 0, more, lifted, revoked and 1 or nil }
