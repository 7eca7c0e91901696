-- Needs: call, all names of a hold, token, ttl, fence, since, young, number,
-- ending, memory. The rest of a script that extends a hold of the token, if
-- there is one.
--
-- Requests of one holder may come late, after others that it sent later. So
-- what merely renews (ending 0) never takes time away. Only what is asked for
-- exactly (1) does, and its holder numbers such requests; whatever it sends
-- later carries the number of the last one. One of these whose number is not
-- above the highest that was seen is an old one, and changes nothing; nor does
-- a renewal whose number is below it. Where another program wrote into what was
-- seen, nobody can say which is old: then the hold is given up.
--@include number
local value = call('GET', L)
local mine = value == token
if not value or not mine and string.sub(value, 1, 2) ~= '~s' then
  return -1
end
local marks = call('HMGET', I, token, '!' .. token, '#' .. token)
local function answer(left)
  if marks[2] then return { math.max(left, 0), 1 } end
  return math.max(left, 0)
end
local seen = number_of(marks[3] or '0')
if not seen then return -1 end
-- How many ms it has from now on, if it had so many.
local function span(left)
  local old = number < seen or number == seen and ending > 0
  if old then return left end
  if ending == 0 then return math.max(left, ttl) end
  return ttl
end
local function count()
  if number > seen then call('HSET', I, '#' .. token, number) end
end
if mine then
  local left = call('PTTL', L)
  local ends = span(left)
  if ends > 0 then call('PEXPIRE', L, ends) end
  remember()
  -- For inspect: a hold that publishes nothing, or came by a local hand-off.
  -- Not of one that only just began: it may be over before anybody asks.
  local note = marks[1]
  local due = not young and (not note or note:match('^%d+') ~= fence)
  if due then
    local time = call('TIME')
    call('HSET', I, token, string.format('%s %.0f ', fence,
      time[1] * 1000 + math.floor(time[2] / 1000) - since))
  end
  count()
  if due or note or marks[2] or marks[3] or number > 0 then
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
count()
settle(s)
return answer(ends - now)
