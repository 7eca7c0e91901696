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
--       | {'wait', PTTL of L (-1: we are not the first), F, our order, our rank,
--          what L holds, more}
--       | {'gone'}: refresh of a token that has no place any more
--       | {'limit'}: who is ahead shares under another limit; no place is kept
--         more: 1 = call again at once
local L, F, Q, W, H, P, I, N =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local token, ttl = ARGV[1], tonumber(ARGV[2])
local units, cap, how = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local spare = tonumber(ARGV[9])
local memory, lift = tonumber(ARGV[10]), ARGV[11] == '1'
--@include clock
--@include fence
--@include state
--@include channel
--@include grant

local function got(f, aside)
  if not aside or aside == 0 then return { 'got', f, 0 } end
  local first = call('ZRANGE', Q, 0, 0, 'WITHSCORES')[2]
  return { 'got', f, aside, first
    and math.max(time[1] * 1000000 + time[2] - first, 0) or -1 }
end

local s = state()
if holds(s, token) then
  -- A late request takes no time away from what was extended since.
  ttl = math.max(ttl, s.mode == 'x' and call('PTTL', L)
    or call('ZSCORE', H, token) - now)
  if s.mode == 'x' then
    call('PEXPIRE', L, ttl)
  else
    call('ZADD', H, now + ttl, token)
    keep(ttl)
  end
  local f, aside = fence(spare)
  if s.mode ~= 'x' or ARGV[12] then note(token, f, ARGV[12]) end
  if s.mode == 'x' then call('PEXPIRE', I, ttl + 1000) end
  return got(f, aside)
end

-- The last of the queue, which who refreshes need not know.
local last = how == 'refresh' and {} or call('ZRANGE', Q, -1, -1, 'WITHSCORES')
local place = (how == 'refresh' or last[1]) and call('ZSCORE', Q, token)
if how == 'refresh' and not place then return { 'gone' } end
local was = place and waiter(token)
if was then asked = was.seen end

-- Whether the queue was given its time in the present eight seconds, if it was
-- by who asked at ms.
local function is_kept(ms)
  return math.floor(ms / 8000) == math.floor(now / 8000)
end

-- Who finds no queue gives it a minute, and after that the first one to come or
-- ask in every eight seconds.
local function queue_up()
  local kept = is_kept(was and was.seen or last[2] and last[2] / 1000 or 0)
  if not place then
    place = ARGV[8]
    if place == '' then
      place = digits(math.max((last[2] or 0) + 1, time[1] * 1000000 + time[2]))
    end
    call('ZADD', Q, place, token)
  end
  note_waiter(token, { believed = now + ARGV[7], units = units, cap = cap,
    claim = ARGV[6], seen = now, value = ARGV[12] })
  if not kept then
    call('PEXPIRE', Q, '60000')
    call('PEXPIRE', W, '60000')
  end
end

-- Whether the one ahead of our place (nil: of who comes now) shares under
-- another limit. A dead one says nothing: once it is dropped, the next does.
local function other_limit(rank, w)
  if units == 0 then return false end
  if not rank then
    local ahead = call('ZRANGE', Q, -1, -1)[1]
    w = ahead and waiter(ahead)
    if ahead and not (w and alive(ahead, w)) then return false end
  end
  if not w then return s.mode == 's' and s.cap ~= cap end
  return w.units > 0 and w.cap ~= cap
end

-- A free lock and no queue needs no place in it.
if not place and not last[1] and fits(s, units, cap) then
  return got(give(s, token, units, cap, ttl, ARGV[12], spare))
end
if how ~= 'try' then queue_up() end
local f, more, aside = grant(s, token, ttl, spare)
if f then return got(f, aside) end
local rank, ahead
if place then rank = call('ZRANK', Q, token) or 0 end
if rank and more == 0 then rank, more, ahead = clear(rank) end
if more == 0 and other_limit(rank, ahead) then
  if rank then
    leave_queue(token)
    grant(s)
  end
  return { 'limit' }
end
if how == 'try' then
  if call('EXISTS', Q) == 0 and fits(s, units, cap) then
    return { 'got', give(s, token, units, cap, ttl, ARGV[12]) }
  end
  return { 'busy', 0, 0, 0, 0, s.value or '' }
end
return { 'wait', rank == 0 and call('PTTL', L) or -1,
  tonumber(call('GET', F) or 0), digits(place), rank, s.value or '', more }
