-- Holders and waiters, at most 1,000 each; writes nothing.
-- KEYS: lock, fence, queue, waiters, holders, permits, info
-- Returns nil: nobody
--       | {mode ('x' | 's'), limit or 0,
--          {token, units, ms left (-1: no end), fence ('': a foreign
--           client's), ms held (-1: no note yet), value, ... for each holder},
--          {token, units, limit, ms waited, ... for each waiter}}
-- Without a note the fence of ours is at most the counter: spare fences may be
-- set aside above it.
local L, F, Q, W, H, P, I =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
--@include clock
--@include shown
--@include ours
--@include counter
--@include standing
--@include permits
local value = call('GET', L)
local used, cap = shared_by(value)
local holders, waiters = {}, {}

local function add(list, ...)
  for i = 1, select('#', ...) do list[#list + 1] = (select(i, ...)) end
end

local function holder(token, units, left)
  local note = call('HGET', I, token) or ''
  local fence, since, at = note:match('^(%d+) (%d+) ()')
  add(holders, token, units, left,
    fence or ours(token) and digits(counter() or 0) or '',
    since and math.max(now - since, 0) or -1,
    at and string.sub(note, at) or '')
end

if used then
  local list = call('ZRANGEBYSCORE', H, digits(now + 1), '+inf', 'WITHSCORES',
    'LIMIT', 0, SHOWN)
  for i = 1, #list, 2 do
    holder(list[i], number_of(call('HGET', P, list[i])) or 0,
      list[i + 1] - now)
  end
elseif value then
  holder(value, 0, call('PTTL', L))
end

local queue = call('ZRANGE', Q, 0, SHOWN - 1, 'WITHSCORES')
for i = 1, #queue, 2 do
  local w = waiter(queue[i], queue[i + 1])
  if w and w.believed > now then
    add(waiters, queue[i], w.units, w.cap,
      math.max(now - math.floor(queue[i + 1] / 1000), 0))
  end
end
if #holders == 0 and #waiters == 0 then return false end
return { used and 's' or 'x', cap or 0, holders, waiters }
