-- Takes a lock that is free, or has room, or queues up for it. A token joins
-- once.
-- KEYS: lock, fence, queue, waiters, holders, permits, info, news
-- ARGV: token, ttl, units, cap, claim, for how long to believe that we live,
--       order ('' or our old place), how many fences to set aside for handing
--       the lock on, for how long the counter stays, 1: lift it (see fence),
--       what an election publishes (may be missing); times in ms
-- Returns {'got', fence, how many above it are set aside, and if there are any:
--          since how many us the next one of the queue is there, -1: nobody is}
--       | {'wait', PTTL of L if we are the first, F, our order, our rank, what
--          L holds, 1: call again at once}
--       | {'limit'}: who is ahead shares under another limit; no place is kept
local L, F, Q, W, H, P, I, N =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local token, order, memory = ARGV[1], ARGV[7], ARGV[9]
local plain = order == '' and ARGV[3] == '0' and not ARGV[11]
--@include clock
--@include channel
--@include counter
--@include memory
--@include kept
plain = plain and ARGV[5] == CLAIM and ARGV[6] == CLAIM

local value = call('GET', L)
local occupied = value and value ~= token and string.sub(value, 1, 2) ~= '~s'
-- The usual join: another one holds the lock alone, and we are plain (standing)
-- and new. The rest of the script would do the same:
-- - Our time is after the last order, so it is our order, and our place the
--   last.
-- - The last one joined as we do, within a second, and listens: nobody dead is
--   right before us, and the queue has its time. Or there is no queue, nor W.
-- - The counter gets its time here, for hand.
-- A token that has a place is not added (NX).
if occupied and plain and ARGV[8] == '0' then
  local last = call('ZRANGE', Q, '-1', '-1', 'WITHSCORES')
  local at = time[1] .. string.sub('00000' .. time[2], -6)
  local fine = true
  if last[1] then
    local now_us, before = at + 0, last[2] + 0
    fine = before % 1 == 0 and before < now_us and now_us - before < 999000
      and same_span(before, now_us)
      and call('PUBSUB', 'NUMSUB', channel(last[1]))[2] > 0
  end
  local f = fine and counter()
  if f then remember(CLAIM) end
  if f and call('ZADD', Q, 'NX', at, token) == 1 then
    if last[1] then
      return { 'wait', -1, f, at, call('ZRANK', Q, token), value, 0 }
    end
    call('PEXPIRE', Q, KEPT)
    return { 'wait', call('PTTL', L), f, at, 0, value, 0 }
  end
end

local units, cap, rank = tonumber(ARGV[3]), tonumber(ARGV[4]), nil
--@include standing
--@include place
--@include queue
--@include limit
--@include stand

local last = call('ZRANGE', Q, -1, -1, 'WITHSCORES')[2]

-- The first to come, and the first in eight seconds, keeps the queue. A token
-- that has a place keeps it.
local function queue_up()
  local at, had = time[1] * 1000000 + time[2], last and call('ZSCORE', Q, token)
  if had then
    order, plain = order_of(had), false
  elseif order == '' then
    local next = last and math.floor(last) + 1 or 0
    plain = plain and next <= at
    order = digits(math.max(next, at))
  end
  if plain then
    call('ZADD', Q, order, token)
    if not (last and same_span(last, at)) then keep_queue() end
    remember(CLAIM) -- for the hand-over (see hand)
  else
    note_us(not had)
  end
end

-- Another one holds it alone: nobody is let in, so what follows is not made.
if occupied then
  queue_up()
  rank = call('ZRANK', Q, token)
  return stand({ mode = 'x', value = value }, 0)
end

local ttl, spare, lift = tonumber(ARGV[2]), tonumber(ARGV[8]), ARGV[10] == '1'
--@include fence
--@include state
--@include publish
--@include grant
--@include got

local s = state(value)
if holds(s, token) then return had(s) end
-- A free lock and no queue needs no place in it.
if not last and fits(s, units, cap) then
  return got(give_any(s, token, { units = units, cap = cap, value = ARGV[11] },
    ttl, spare))
end
queue_up()
return wait(s)
