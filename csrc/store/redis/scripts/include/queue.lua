-- Needs: clock, channel, standing, place, Q, W. Which waiters live.

-- W comes first: a token left in Q is dropped by those behind it.
local function leave_queue(token, score)
  if not score or is_noted(score) then call('HDEL', W, token) end
  call('ZREM', Q, token)
end

local function order_of(score) return digits(math.floor(score)) end

-- Whether the server stood still. The first of a queue ask three times a
-- second. If none of the first hundred did so lately (the last 50 ms may have
-- piled up before us), the marks say nothing: those that listen count as alive
-- for one second more, once. asked: the score and the note of the one that
-- asks, when it came.
local asked, still = false, nil
local function was()
  local w = asked and standing(asked[1], asked[2])
  return w and w.seen or 0
end
local function lately(seen) return now - seen > 50 and now - seen <= 600 end

-- It was heard of.
local function note_heard(w)
  if still == nil and lately(w.seen) then still = false end
end

local function stood_still()
  if still ~= nil then return still end
  local list, found = call('ZRANGE', Q, 0, 99, 'WITHSCORES'), {}
  still = not lately(was())
  for i = 1, #list, 2 do
    found[i] = waiter(list[i], list[i + 1])
    still = still and not (found[i] and lately(found[i].seen))
  end
  for i = 1, still and #list or 0, 2 do
    local w = found[i]
    if w and w.believed <= now and w.seen > 0 and listens(list[i]) then
      w.seen, w.span = 0, digits(now + 1000)
      note_waiter(list[i], order_of(list[i + 1]), false, w)
    end
  end
  return still
end

-- heard: the listeners on its channel, if known. A waiter is dead whose time
-- was over already when the one that asks did so before: we served others
-- since.
local function alive(token, w, heard)
  note_heard(w)
  if not (heard and heard > 0 or not heard and listens(token)) then
    return false
  end
  return w.believed > now
    or w.seen > 0 and was() <= w.believed and stood_still()
end
