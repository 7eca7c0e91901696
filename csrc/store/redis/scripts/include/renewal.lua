-- Needs: call, all names of a hold, token, ttl, fence, since, number, exact,
-- memory. The rest of a script that extends a hold of the token, if there is
-- one.
--
-- Requests of one holder may come late, after others that it sent later. So
-- what merely renews never takes time away. Only what is asked for exactly
-- does, and its holder numbers such requests; whatever it sends later carries
-- the number of the last one. A request whose number is not above the highest
-- that was seen is an old one, and changes nothing.
local value = call('GET', L)
local function answer(left)
  if call('HGET', I, '!' .. token) then return { math.max(left, 0), 1 } end
  return math.max(left, 0)
end
local seen = number > 0 and tonumber(call('HGET', I, '#' .. token)) or 0
-- How many ms it has from now on, if it had so many.
local function span(left)
  if exact then return number > seen and ttl or left end
  return math.max(left, ttl)
end
local function count()
  if number > seen then call('HSET', I, '#' .. token, number) end
end
if value == token then
  local left = call('PTTL', L)
  local ends = span(left)
  if ends > 0 then call('PEXPIRE', L, ends) end
  remember() -- before HSET, see below
  -- For inspect: a hold that came without a script, or by a local hand-off.
  local note = call('HGET', I, token)
  if not note or note:match('^%d+') ~= fence then
    local time = call('TIME')
    call('HSET', I, token, string.format('%s %.0f ', fence,
      time[1] * 1000 + math.floor(time[2] / 1000) - since))
  end
  count()
  call('PEXPIRE', I, math.max(ends, 0) + 1000)
  return answer(left)
end
if not value or string.sub(value, 1, 2) ~= '~s' then return -1 end
--@include clock
--@include state
local s = state()
local ends = s.mode == 's' and call('ZSCORE', H, token)
if not ends then return -1 end
-- First, because it takes no memory: a script that has written once is not
-- refused by a server that is full, as it would be with ZADD as its first.
remember()
call('ZADD', H, now + span(ends - now), token)
count()
settle(s)
return answer(ends - now)
