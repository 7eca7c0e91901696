-- Needs: clock, fence, state, channel, all names. The admission rule and the
-- hand-off: written once for every kind of lock.
local function fits(s, units, cap)
  if not s.mode then return true end
  if s.mode == 'x' or units == 0 or cap ~= s.cap then return false end
  return cap == 0 or s.used + units <= cap
end

-- What inspect shows of a hold: its fence, since when, what it publishes.
local function note(token, f, value)
  call('HSET', I, token, digits(f) .. ' ' .. digits(now) .. ' '
    .. (value or ''))
end

-- The holder is another one: tells the clients that asked to be told, at most
-- 1,000. They ask anew, and ask for the next change if they want it.
local told
local function tell()
  if told then return end
  told = true
  if call('EXISTS', N) == 0 then return end
  for _, c in ipairs(call('ZRANGE', N, 0, 999)) do
    call('PUBLISH', c, 'c ' .. L)
  end
  call('DEL', N)
end

-- Returns the fence, and how many above it are set aside. An exclusive hold
-- that publishes nothing is noted by a renewal, if it lasts for so long.
local function give(s, token, units, cap, ttl, value, spare)
  local f, aside = fence(spare)
  tell()
  if units == 0 then
    if not s.clean then call('DEL', I) end -- of a holder whose time is over
    call('SET', L, token, 'PX', ttl)
    if value then
      note(token, f, value)
      call('PEXPIRE', I, ttl + 1000)
    end
    s.mode, s.value, s.clean = 'x', token, false
    return f, aside
  end
  if not s.mode then
    s.mode, s.used, s.value = 's', 0, '~s' .. digits(f)
    call('DEL', H, P, I)
    call('SET', L, s.value, 'PX', ttl)
    call('HSET', P, 'g', digits(f))
  end
  note(token, f, value)
  s.used, s.cap = s.used + units, cap
  call('HSET', P, token, units, 'u', s.used, 'cap', cap)
  call('ZADD', H, now + ttl, token)
  keep(ttl)
  return f, aside
end

local function leave_queue(token)
  call('ZREM', Q, token)
  call('HDEL', W, token)
end

local function listens(token)
  return call('PUBSUB', 'NUMSUB', channel(token))[2] > 0
end

-- How a waiter stands there, nil when nobody knows it. It is believed to live
-- until a time; `seen` is when it asked last, 0: it was believed again since.
-- `value` is what it publishes, nil if nothing.
local function waiter(token)
  local said = call('HGET', W, token) or ''
  local believed, units, cap, claim, seen, at =
    said:match('^(%d+) (%d+) (%d+) (%d+) (%d+)()')
  return believed and { believed = tonumber(believed), units = tonumber(units),
    cap = tonumber(cap), claim = tonumber(claim), seen = tonumber(seen),
    value = #said >= at and string.sub(said, at + 1) or nil }
end

local function note_waiter(token, w)
  call('HSET', W, token, string.format('%.0f %d %d %d %.0f%s',
    w.believed, w.units, w.cap, w.claim, w.seen,
    w.value and ' ' .. w.value or ''))
end

-- Whether it was us who stood still. The first of a queue ask three times a
-- second. When not one of them did so lately (what came within the last moment
-- may have piled up before us), the marks ran out and say nothing: whoever of
-- them listens is believed for a second more, and keeps its place. Only once:
-- who does not ask in that time is dead. Looks at a hundred. `asked` is when
-- the one who asks now did so before.
local asked, still = 0, nil
local function stood_still()
  if still ~= nil then return still end
  local function lately(seen) return now - seen > 50 and now - seen <= 600 end
  local list = call('ZRANGE', Q, 0, 99)
  still = not lately(asked)
  for _, token in ipairs(list) do
    list[token] = waiter(token)
    still = still and not (list[token] and lately(list[token].seen))
  end
  for _, token in ipairs(still and list or {}) do
    local w = list[token]
    if w and w.believed <= now and w.seen > 0 and listens(token) then
      w.believed, w.seen = now + 1000, 0
      note_waiter(token, w)
    end
  end
  return still
end

local function alive(token, w)
  return listens(token)
    and (w.believed > now or w.seen > 0 and stood_still())
end

-- The same of one that will be sent a message: that says how many heard it. But
-- whoever listens to all channels by a pattern counts as well; so it is relied
-- on only for one that asked within the last second, and such a listener costs
-- those behind the dead one claim, whose time makes all others older.
local function may_hear(token, w)
  if w.believed > now and now - w.seen < 1000 then return true end
  return alive(token, w)
end

-- Drops the dead right before a place; the queue of a lock that is held for
-- long does not grow by them. Returns the rank, 1 if there may be more, and who
-- is ahead.
local function clear(rank)
  for _ = 1, 100 do
    local ahead = rank > 0 and call('ZRANGE', Q, rank - 1, rank - 1)[1]
    local w = ahead and waiter(ahead)
    if not ahead or w and alive(ahead, w) then return rank, 0, w end
    leave_queue(ahead)
    rank = rank - 1
  end
  return rank, 1
end

-- Gives to the heads of the queue while they fit; strictly in order, so that
-- writers do not starve. A dead head is dropped: the living come back with
-- their place. The token `mine` is given `my_ttl` and told by the return
-- value, all others a claim and a message. Returns mine's fence or nil, 1 when
-- the limit was hit and the caller must call again, and what is set aside.
local function grant(s, mine, my_ttl, my_spare)
  local my_fence, aside
  for _ = 1, 1000 do
    if s.mode == 'x' then return my_fence, 0, aside end
    local token = call('ZRANGE', Q, 0, 0)[1]
    if not token then return my_fence, 0, aside end
    local w = waiter(token)
    local fit = w and fits(s, w.units, w.cap)
    if w and not fit and (token == mine or alive(token, w)) then
      return my_fence, 0, aside
    end
    leave_queue(token)
    if fit and token == mine then
      my_fence, aside = give(s, token, w.units, w.cap, my_ttl, w.value,
        my_spare)
    elseif fit and may_hear(token, w) then
      local f = give(s, token, w.units, w.cap, w.claim, w.value)
      local news = 'g ' .. digits(f) .. ' ' .. token
      if call('PUBLISH', channel(token), news) == 0 then let_go(s, token) end
    end
  end
  return my_fence, 1, aside
end
