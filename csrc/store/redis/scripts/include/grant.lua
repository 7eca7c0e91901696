-- Needs: clock, fence, state, publish, queue, all names. The admission rule and
-- the hand-off of every kind of lock.
local function fits(s, units, cap)
  if not s.mode then return true end
  if s.mode == 'x' or units == 0 or cap ~= s.cap then return false end
  return cap == 0 or s.used + units <= cap
end

--@include told

-- Begins a hold of a free key: all that write() writes, or nothing if a part is
-- refused.
local function whole(write)
  local ok, err = pcall(write)
  if ok then return end
  call('DEL', L, H, P, I)
  error(err, 0)
end

-- An exclusive hold; without a value its first renewal writes the note. Returns
-- the fence, and how many above it are set aside.
local function give(s, token, ttl, value, spare)
  local f, aside = fence(1, spare)
  tell()
  if not s.clean then call('DEL', I) end -- of a holder whose time is over
  whole(function()
    call('SET', L, token, 'PX', ttl)
    if not value then return end
    call('HSET', I, token, note_of(f, value))
    call('PEXPIRE', I, ttl + 1000)
  end)
  s.mode, s.value, s.clean = 'x', token, false
  return f, aside
end

-- Holds that share, as a list: token, units (counted already), ttl, value.
-- Returns the fence of the first; each of the others has one more. H comes
-- first: leave takes back what is in H, and frees no units that P lacks.
local function share(s, list)
  local f, most, fresh = fence(#list), 0, not s.mode
  local ends, notes, permits = {}, {}, {}
  tell()
  if fresh then
    s.mode, s.value = 's', '~s' .. digits(f)
    call('DEL', H, P, I)
    permits = { 'g', digits(f) }
  end
  for i, one in ipairs(list) do
    most = math.max(most, one.ttl)
    ends[2 * i - 1], ends[2 * i] = now + one.ttl, one.token
    notes[2 * i - 1], notes[2 * i] = one.token, note_of(f + i - 1, one.value)
    permits[#permits + 1], permits[#permits + 2] = one.token, one.units
  end
  local function write()
    if fresh then call('SET', L, s.value, 'PX', most) end
    call('ZADD', H, unpack(ends))
    call('HSET', P, 'u', s.used, 'cap', s.cap, unpack(permits))
    call('HSET', I, unpack(notes))
    keep(most)
  end
  if fresh then whole(write) else write() end
  return f
end

-- Gives to one token: it asks, or is the first of the queue.
local function give_any(s, token, w, ttl, spare)
  if w.units == 0 then return give(s, token, ttl, w.value, spare) end
  s.used, s.cap = s.used + w.units, w.cap
  return share(s, { { token = token, units = w.units, ttl = tonumber(ttl),
    value = w.value } }), 0
end

-- Whether the first one lives. The message will tell how many heard it, but a
-- listener to all channels counts too. So the message is relied on for a second
-- after the last request only; such a listener costs one claim.
local function asks(token, w)
  note_heard(w)
  return w.believed > now and now - w.seen < 1000 or alive(token, w)
end

-- Nobody holds: gives to the first if it lives. s.first: it was taken out of
-- the queue already. Returns as well whether the queue is empty.
local function grant_first(s, mine, my_ttl, my_spare)
  local first = s.first or call('ZPOPMIN', Q)
  local token, score = first[1], first[2]
  s.first = nil
  if not token then return nil, nil, true end
  local w = waiter(token, score)
  if is_noted(score) then call('HDEL', W, token) end
  if w and token == mine then
    return give_any(s, token, w, my_ttl, my_spare)
  elseif w and asks(token, w) then
    local f = give_any(s, token, w, w.claim)
    if publish(call, token, f) == 0 then let_go(s, token) end
  end
end

-- Some share: gives to those of the first `most` that fit beside them. Returns
-- mine's fence, and whether there may be more.
local function grant_more(s, most, mine, my_ttl)
  local list = call('ZRANGE', Q, 0, most - 1, 'WITHSCORES')
  if not list[1] then return nil, false end
  local names, channels = {}, {}
  for i = 1, #list / 2 do
    names[i], channels[i] = list[2 * i - 1], channel(list[2 * i - 1])
  end
  local counts = call('PUBSUB', 'NUMSUB', unpack(channels))
  local said = call('HMGET', W, unpack(names))
  local gone, given, more = {}, {}, #list == 2 * most
  for i, token in ipairs(names) do
    local w = standing(list[2 * i], said[i])
    if w and (token == mine or alive(token, w, counts[2 * i])) then
      if not fits(s, w.units, w.cap) then
        more = false
        break
      end
      given[#given + 1], s.used = w, s.used + w.units
      w.token, w.ttl = token, tonumber(token == mine and my_ttl or w.claim)
    end
    gone[#gone + 1] = token
  end
  if gone[1] then
    call('ZREM', Q, unpack(gone))
    call('HDEL', W, unpack(gone))
  end
  local first, my_fence = given[1] and share(s, given), nil
  for i, w in ipairs(given) do
    if w.token == mine then
      my_fence = first + i - 1
    else
      publish(call, w.token, first + i - 1)
    end
  end
  return my_fence, more
end

-- Gives to the heads of the queue while they fit; strictly in order, so that
-- writers do not starve. Drops dead heads: the living come back with their
-- place. The token `mine` gets `my_ttl` and its answer, all others a claim and
-- a message. A call takes the server about a millisecond. Returns mine's fence
-- or nil, 1: call again, and how many fences are set aside.
local function grant(s, mine, my_ttl, my_spare)
  local my_fence, aside
  local left, most = 1000, 2
  while left > 0 do
    local f, spare, more
    if s.mode == 'x' then
      return my_fence, 0, aside
    elseif not s.mode then
      f, spare, more = grant_first(s, mine, my_ttl, my_spare)
      more = not more
      left = left - 1
    else
      f, more = grant_more(s, most, mine, my_ttl)
      left, most = left - 4 * most, math.min(8 * most, 128)
    end
    if f then my_fence, aside = f, spare or 0 end
    if not more then return my_fence, 0, aside end
  end
  return my_fence, 1, aside
end

-- The same at the end of a request that ended a hold. A refusal now does not
-- undo that, so it is not the answer; waiters ask by themselves. `changed`: the
-- holder is another one. Returns whether to call again.
local function let_in(s, changed)
  if changed then pcall(tell) end
  local ok, _, more = pcall(grant, s)
  return ok and more or 0
end
