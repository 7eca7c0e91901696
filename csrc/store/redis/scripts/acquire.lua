-- Acquire, or queue up, or refresh a place in the queue.
-- KEYS: lock, fence, queue, waiters, holders, permits, info, news
-- ARGV: token, ttl, units, cap, how (try | join | refresh), claim,
--       for how long to believe that we live, order ('' or our old place),
--       how many fences to set aside for handing the lock on,
--       for how long the counter stays, 1: lift it (see fence),
--       what an election publishes (missing: there is none)
--       times in ms
-- Returns {'got', fence, how many above it are set aside, and if there are any:
--          since how many us the next one of the queue is there, -1: nobody is}
--       | {'busy', 0, 0, 0, 0, what L holds}
--       | {'wait', PTTL of L if we are the first, F, our order, our rank, what
--          L holds, more}
--       | {'gone'}: refresh of a token that has no place any more
--       | {'limit'}: who is ahead shares under another limit; no place is kept
--         more: 1 = call again at once
local L, F, Q, W, H, P, I, N =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local token, how, memory = ARGV[1], ARGV[5], ARGV[10]
--@include clock
--@include channel
--@include counter
--@include memory
--@include kept

local value = call('GET', L)
local occupied = value and value ~= token and string.sub(value, 1, 2) ~= '~s'
--@include join

local units, cap = tonumber(ARGV[3]), tonumber(ARGV[4])
--@include standing
--@include place

-- We asked just now, and are believed for so long from now.
local function note_us(order, new)
  note_waiter(token, order, new, { seen = time[1]
    .. string.format('%03d', math.floor(time[2] / 1000)), span = ARGV[7],
    units = ARGV[3], cap = ARGV[4], claim = ARGV[6], value = ARGV[12] })
end

-- Whether who stands ahead of us and lives, or holds, shares under another
-- limit.
local function other_limit(s, w)
  if units == 0 then return false end
  if w then return w.units > 0 and w.cap ~= cap end
  return s.mode == 's' and s.cap ~= cap
end

-- A crowd at rest: who asks again waits behind one that lives by what it said
-- itself, while another one holds the lock alone, and nothing else is to be
-- done. This comes before all that other requests need. The scores, which take
-- the server long to write, are left alone; only what W has need be seen.
--
-- Who asks every two seconds, as all do in front and where the queue moves, and
-- so is believed for no longer than three times that (belief_of in wait.c),
-- gives the queue its time when eight seconds of that are over; so does whoever
-- comes to the rest of this script. Who asks more seldom leaves it to those
-- before it. If all of these die or hang, it finds the one right before it not
-- listening, or silent for longer than that one was believed (24 s from when it
-- asked), when it asks itself, within 20 s of that: 44 s after the last of
-- them. The queue lasts for 50 s from then at least.
local OFTEN = 6000
local rank = how == 'refresh' and occupied and call('ZRANK', Q, token)
if rank and rank > 0 then
  local at = string.format('%d', rank - 1)
  local before = call('ZRANGE', Q, at, at)[1]
  local w = standing(nil, call('HGET', W, before))
  if w and w.believed > now and w.seen > 0 and listens(before)
      and not other_limit(nil, w) then
    note_us(ARGV[8], false)
    if tonumber(ARGV[7]) <= OFTEN and is_aging() then keep_queue() end
    return { 'wait', -1, counter() or 0, ARGV[8], rank, value, 0 }
  end
end
--@include queue

-- Our place in the queue, if we have one: the order, the score that it has, and
-- the rank; and who stands right before it. The last one's score is looked up
-- for who comes anew.
local order, score, before, last

local function find_place()
  if how ~= 'refresh' then
    last = call('ZRANGE', Q, -1, -1, 'WITHSCORES')[2]
    score = last and tonumber(call('ZSCORE', Q, token) or nil)
    if score then asked = { score, call('HGET', W, token) } end
  else
    rank = rank or call('ZRANK', Q, token)
    if not rank then return end
    local list = call('ZRANGE', Q, math.max(rank - 1, 0), rank, 'WITHSCORES')
    local said = call('HMGET', W, token, list[1])
    score = tonumber(list[#list])
    asked = { score, said[1] }
    before = rank > 0 and { list[1], tonumber(list[2]), said[2] }
  end
  order = score and order_of(score)
end

-- Who finds no queue gives it its time, and so does the first one to come in
-- every eight seconds, or to ask after eight.
local function queue_up()
  local at, plain = time[1] * 1000000 + time[2], false
  local keeps = score and is_aging() or not score
    and not (last and same_span(last, at))
  if not score then
    order = ARGV[8]
    if order == '' then
      local next = last and math.floor(last) + 1 or 0
      plain = next <= at and units == 0 and not ARGV[12]
        and ARGV[6] == CLAIM and ARGV[7] == CLAIM
      order = digits(math.max(next, at))
    end
    if plain then call('ZADD', Q, order, token) end
  end
  if not plain then note_us(order, not score) end
  if keeps and (plain or score and is_noted(score)) then keep_queue() end
  if plain then remember(CLAIM) end -- for the hand-over (see hand)
end

-- Drops the dead right before a place; the queue of a lock that is held for
-- long does not grow by them. Returns 1 if there may be more, else 0 and who is
-- ahead.
local function clear()
  for _ = 1, 100 do
    if rank == 0 then return 0 end
    local one = before or call('ZRANGE', Q, rank - 1, rank - 1, 'WITHSCORES')
    local w = before and standing(before[2], before[3])
      or not before and waiter(one[1], one[2])
    if w and alive(one[1], w) then return 0, w end
    leave_queue(one[1], one[2])
    rank, before = rank - 1, nil
  end
  return 1
end

-- Where we stand. more: 1 if the next ones are not let in yet.
local function stand(s, more)
  local ahead
  rank = rank or (last or score) and call('ZRANK', Q, token) or 0
  if more == 0 then more, ahead = clear() end
  if more == 0 and other_limit(s, ahead) then
    leave_queue(token)
    return { 'limit' }
  end
  return { 'wait', rank == 0 and call('PTTL', L) or -1,
    counter() or 0, order, rank, s.value or '', more }
end

if value ~= token then find_place() end
local gone = how == 'refresh' and not score
-- While another one holds it alone nobody is let in: what follows is not made.
if how ~= 'try' and occupied then
  if gone then return { 'gone' } end
  queue_up()
  return stand({ mode = 'x', value = value }, 0)
end

local ttl, spare, lift = tonumber(ARGV[2]), tonumber(ARGV[9]), ARGV[11] == '1'
--@include fence
--@include state
--@include publish
--@include grant

local function got(f, aside)
  if not aside or aside == 0 then return { 'got', f, 0 } end
  local first = call('ZRANGE', Q, 0, 0, 'WITHSCORES')[2]
  return { 'got', f, aside, first
    and math.max(time[1] * 1000000 + time[2] - first, 0) or -1 }
end

-- It holds already. A late request takes no time away from what was extended
-- since.
local function had(s)
  local left = s.mode == 'x' and call('PTTL', L)
    or call('ZSCORE', H, token) - now
  ttl = math.max(ttl, left)
  if s.mode == 'x' then
    call('PEXPIRE', L, ttl)
  else
    call('ZADD', H, now + ttl, token)
    keep(ttl)
  end
  local f, aside = fence(1, spare)
  if s.mode ~= 'x' or ARGV[12] then
    call('HSET', I, token, note_of(f, ARGV[12]))
  end
  if s.mode == 'x' then call('PEXPIRE', I, ttl + 1000) end
  return got(f, aside)
end

-- The same of one that would not queue: a dead one at the end of the queue says
-- nothing.
local function other_limit_at_end(s)
  local ahead = units > 0 and call('ZRANGE', Q, -1, -1, 'WITHSCORES') or {}
  local w = ahead[1] and waiter(ahead[1], ahead[2])
  return (not ahead[1] or w and alive(ahead[1], w)) and other_limit(s, w)
end

local function try(s)
  grant(s)
  if other_limit_at_end(s) then return { 'limit' } end
  if call('EXISTS', Q) == 0 and fits(s, units, cap) then
    return got((give_any(s, token, { units = units, cap = cap,
      value = ARGV[12] }, ttl)))
  end
  return { 'busy', 0, 0, 0, 0, s.value or '' }
end

local function wait(s)
  queue_up()
  local f, more, aside = grant(s, token, ttl, spare)
  if f then return got(f, aside) end
  rank, before = nil, nil
  local answer = stand(s, more)
  if answer[1] == 'limit' then grant(s) end
  return answer
end

local s = state(value)
if holds(s, token) then return had(s) end
if gone then return { 'gone' } end
-- A free lock and no queue needs no place in it.
if not last and not score and fits(s, units, cap) then
  return got(give_any(s, token, { units = units, cap = cap, value = ARGV[12] },
    ttl, spare))
end
if how == 'try' then return try(s) end
return wait(s)
