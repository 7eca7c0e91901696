-- Keeps a place in the queue, or finds that we hold the lock: by a hand-over,
-- or from now on.
-- KEYS: lock, fence, queue, waiters, holders, permits, info, news
-- ARGV: token, ttl, units, cap, claim, for how long to believe that we live,
--       our order, how many fences to set aside for handing the lock on,
--       for how long the counter stays, 1: lift it (see fence),
--       what an election publishes (may be missing); times in ms
-- Returns as join
--       | {'gone'}: the token neither holds nor has a place
local L, F, Q, W, H, P, I, N =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local token, order, memory = ARGV[1], ARGV[7], ARGV[9]
--@include clock
--@include channel
--@include counter
--@include memory
--@include kept

local value = call('GET', L)
local occupied = value and value ~= token and string.sub(value, 1, 2) ~= '~s'
local units, cap = tonumber(ARGV[3]), tonumber(ARGV[4])
local rank
--@include standing
--@include place
--@include queue
--@include limit
--@include stand

-- A crowd at rest: another one holds the lock alone, and the one before us
-- lives by its own word. Only W is looked at: the server writes scores slowly.
--
-- A waiter that asks every two seconds, as in front and in a queue that moves,
-- is believed for OFTEN at most (belief_of in wait.c), and keeps an aging
-- queue. The others leave that to those before. If all of these die or hang,
-- the first behind finds the one before it silent for more than 24 s, or not
-- listening, when it asks within 20 s of that: after 44 s. The queue lasts for
-- 50 s.
local OFTEN = 6000
rank = occupied and call('ZRANK', Q, token)
if rank and rank > 0 then
  local at = string.format('%d', rank - 1)
  local before = call('ZRANGE', Q, at, at)[1]
  local w = standing(nil, call('HGET', W, before))
  if w and w.believed > now and w.seen > 0 and listens(before)
      and not other_limit(nil, w) then
    note_us(false)
    if tonumber(ARGV[6]) <= OFTEN and is_aging() then keep_queue() end
    return { 'wait', -1, counter() or 0, order, rank, value, 0 }
  end
end

-- Our place, if any, and the waiter right before it.
local before
rank = rank or value ~= token and call('ZRANK', Q, token)
if rank then
  local list = call('ZRANGE', Q, math.max(rank - 1, 0), rank, 'WITHSCORES')
  local said = call('HMGET', W, token, list[1])
  asked = { tonumber(list[#list]), said[1] }
  before = rank > 0 and { list[1], tonumber(list[2]), said[2] }
end

local function keep_place()
  note_us(false)
  if is_aging() then keep_queue() end
end

-- Another one holds it alone: nobody is let in, so what follows is not made.
if occupied then
  if not rank then return { 'gone' } end
  keep_place()
  return stand({ mode = 'x', value = value }, 0, before)
end

local ttl, spare, lift = tonumber(ARGV[2]), tonumber(ARGV[8]), ARGV[10] == '1'
--@include fence
--@include state
--@include publish
--@include grant
--@include got

local s = state(value)
if holds(s, token) then return had(s) end
if not rank then return { 'gone' } end
keep_place()
return wait(s)
