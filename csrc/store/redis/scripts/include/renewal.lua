-- Needs: call, all names of a hold, token, ttl, fence, since, young, exactly,
-- memory. Extends a hold of the token, and never makes one. A renewal that
-- comes after an extension takes no time away.
local value = call('GET', L)
local mine = value == token
if not value or not mine and string.sub(value, 1, 2) ~= '~s' then
  return -1
end
local marks = call('HMGET', I, token, '!' .. token)
local function answer(left)
  if marks[2] then return { math.max(left, 0), 1 } end
  return math.max(left, 0)
end
-- ms for which it is held from now on, if `left` were left.
local function span(left)
  return exactly and ttl or math.max(left, ttl)
end
if mine then
  local left = call('PTTL', L)
  local ends = span(left)
  if ends > 0 then call('PEXPIRE', L, ends) end
  remember()
  -- For inspect: the note of a hold without one, or from a local hand-off. A
  -- young hold may be over before anybody asks.
  local note = marks[1]
  local due = not young and (not note or note:match('^%d+') ~= fence)
  if due then
    local time = call('TIME')
    call('HSET', I, token, string.format('%s %.0f ', fence,
      time[1] * 1000 + math.floor(time[2] / 1000) - since))
  end
  if due or note or marks[2] then
    call('PEXPIRE', I, math.max(ends, 0) + 1000)
  end
  return answer(left)
end
--@include write
--@include clock
--@include state
local s = state()
local ends = s.mode == 's' and call('ZSCORE', H, token)
if not ends then return -1 end
write_first()
remember()
call('ZADD', H, now + span(ends - now), token)
settle(s)
return answer(ends - now)
