-- Needs: clock, fence, state, all names. The admission rule and the
-- hand-off: written once for every kind of lock.
local function fits(s, units, cap)
  if not s.mode then return true end
  if s.mode == 'x' or units == 0 or cap ~= s.cap then return false end
  return cap == 0 or s.used + units <= cap
end

-- A token is 32 random digits, ':', its client's 16 digits, ':', an owner.
local function channel(token)
  return '~dlock:c:' .. string.sub(token, 34, 49)
end

-- What inspect shows of a hold: its fence, since when, what it publishes.
local function note(token, f, value)
  call('HSET', I, token, digits(f) .. ' ' .. digits(now) .. ' '
    .. (value or ''))
end

-- The holder is another one: tells the clients that asked to be told, at most
-- 1,000. They ask anew, and ask for the next change if they want it.
local function tell()
  if call('EXISTS', N) == 0 then return end
  for _, c in ipairs(call('ZRANGE', N, 0, 999)) do
    call('PUBLISH', c, 'c ' .. L)
  end
  call('DEL', N)
end

-- Returns the fence, and how many above it are set aside.
local function give(s, token, units, cap, ttl, value, spare)
  local f, aside = fence(spare)
  if not s.mode then call('DEL', I) end -- of a holder whose time is over
  note(token, f, value)
  tell()
  if units == 0 then
    call('SET', L, token, 'PX', ttl)
    call('PEXPIRE', I, ttl + 1000)
    s.mode, s.value = 'x', token
    return f, aside
  end
  if not s.mode then
    s.mode, s.used, s.value = 's', 0, '~s' .. digits(f)
    call('SET', L, s.value, 'PX', ttl)
    call('HSET', P, 'g', digits(f))
  end
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

local function alive(token, believed)
  return tonumber(believed) > now
    and call('PUBSUB', 'NUMSUB', channel(token))[2] > 0
end

-- How a waiter stands there: believed, units, cap, claim, what it publishes;
-- nothing when nobody knows it.
local function waiter(token)
  local w = call('HGET', W, token)
  if not w then return end
  local believed, units, cap, claim, at =
    w:match('^(%d+) (%d+) (%d+) (%d+)()')
  return believed, tonumber(units), tonumber(cap), tonumber(claim),
    string.sub(w, at + 1)
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
    local believed, units, cap, claim, value = waiter(token)
    if not believed or token ~= mine and not alive(token, believed) then
      leave_queue(token)
    elseif not fits(s, units, cap) then
      return my_fence, 0, aside
    elseif token == mine then
      leave_queue(token)
      my_fence, aside = give(s, token, units, cap, my_ttl, value, my_spare)
    else
      leave_queue(token)
      local f = give(s, token, units, cap, claim, value)
      call('PUBLISH', channel(token), 'g ' .. digits(f) .. ' ' .. token)
    end
  end
  return my_fence, 1, aside
end
