-- Needs: clock, L, H, P, I. The state of the key:
--   s.mode  nil (free), 'x' (exclusive, ours or a foreign client's), 's'
--   s.value what L holds; s.used, s.cap: units in use and their limit (0: none)
--   s.clean I holds nothing of earlier holders
-- L is the truth: H and P count only while L is the marker that P names. A
-- first shared holder drops what they hold. At most 1,000 expired ones are
-- forgotten.
--@include permits
local function keep(ttl)
  local left = call('PTTL', L)
  if left < ttl then
    call('PEXPIRE', L, ttl)
    left = ttl
  end
  local rest = left + 1000
  call('PEXPIRE', H, rest)
  call('PEXPIRE', P, rest)
  call('PEXPIRE', I, rest)
end

-- Units that cannot be ours free nothing, until nobody holds.
local function forget(s, token)
  local units = number_of(call('HGET', P, token))
  if units and units <= s.used then s.used = s.used - units end
  call('HDEL', P, token)
  call('HDEL', I, token, '!' .. token)
  call('ZREM', H, token)
end

-- After holders were forgotten: frees the key, or sets the latest one's time.
local function settle(s)
  local last = call('ZRANGE', H, -1, -1, 'WITHSCORES')
  if not last[1] then
    call('DEL', L, H, P, I)
    s.mode, s.value, s.used, s.clean = nil, false, 0, true
    return
  end
  call('HSET', P, 'u', s.used)
  call('PEXPIRE', L, math.max(last[2] - now, 1))
  keep(1)
end

-- value: what L holds, if that is known.
local function state(value)
  if value == nil then value = call('GET', L) end
  local s = { value = value, used = 0, cap = 0 }
  s.mode = s.value and 'x' or nil
  local used, cap = shared_by(s.value)
  if not used then return s end
  s.mode, s.used, s.cap = 's', used, cap
  local dead = call('ZRANGEBYSCORE', H, '-inf', now, 'LIMIT', 0, 1000)
  for _, token in ipairs(dead) do forget(s, token) end
  if #dead > 0 then settle(s) end
  return s
end

-- Ends the hold of a token that holds.
local function let_go(s, token)
  if s.mode == 'x' then
    call('DEL', L, I)
    s.mode, s.value, s.clean = nil, false, true
  else
    forget(s, token)
    settle(s)
  end
end

-- Whether token is one that holds; a shared one counts while its time lasts.
local function holds(s, token)
  if s.mode == 'x' then return s.value == token end
  return s.mode == 's' and call('ZSCORE', H, token) ~= false
end
