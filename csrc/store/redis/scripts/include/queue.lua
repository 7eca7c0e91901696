-- Needs: clock, channel, Q, W. Whether those who wait live.
--@include standing
local function leave_queue(token, score)
  call('ZREM', Q, token)
  if not score or is_noted(score) then call('HDEL', W, token) end
end

local function listens(token)
  return call('PUBSUB', 'NUMSUB', channel(token))[2] > 0
end

local function order_of(score) return digits(math.floor(score)) end

-- W lasts as long as Q.
local function keep_queue()
  call('PEXPIRE', Q, '60000')
  call('PEXPIRE', W, '60000')
end

-- Writes it down; score: as it stands in Q, nil if it does not yet. Q was read
-- by now, so it is one, and W comes first: if that is no hash nothing is left
-- behind without a ttl.
local function note_waiter(token, order, score, w)
  local new = not score or not is_noted(score)
  call('HSET', W, token, string.format('%.0f %.0f %.0f %s %.0f%s', w.believed,
    w.units, w.cap, w.claim, w.seen, w.value and ' ' .. w.value or ''))
  if new then call('ZADD', Q, order .. '.5', token) end
  if new then keep_queue() end -- it may be the first in W
end

-- Whether it was us who stood still. The first of a queue ask three times a
-- second. When not one of them did so lately (what came within the last moment
-- may have piled up before us), the marks ran out and say nothing: whoever of
-- them listens is believed for a second more, and keeps its place. Only once:
-- who does not ask in that time is dead. Looks at a hundred. `asked` is how the
-- one who asks now stood there when it came: its score, and what W said. Who
-- asked lately and was let in by this request may have left the queue since.
local asked, still = false, nil
local function lately(seen) return now - seen > 50 and now - seen <= 600 end

-- This one was heard of.
local function note_heard(w)
  if still == nil and lately(w.seen) then still = false end
end

local function stood_still()
  if still ~= nil then return still end
  local list, found = call('ZRANGE', Q, 0, 99, 'WITHSCORES'), {}
  local was = asked and standing(asked[1], asked[2])
  still = not (was and lately(was.seen))
  for i = 1, #list, 2 do
    found[i] = waiter(list[i], list[i + 1])
    still = still and not (found[i] and lately(found[i].seen))
  end
  for i = 1, still and #list or 0, 2 do
    local w = found[i]
    if w and w.believed <= now and w.seen > 0 and listens(list[i]) then
      w.believed, w.seen = now + 1000, 0
      note_waiter(list[i], order_of(list[i + 1]), list[i + 1], w)
    end
  end
  return still
end

-- heard: how many listen on its channel, if that is known.
local function alive(token, w, heard)
  note_heard(w)
  if not (heard and heard > 0 or not heard and listens(token)) then
    return false
  end
  return w.believed > now or w.seen > 0 and stood_still()
end
