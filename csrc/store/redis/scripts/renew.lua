-- Extends a hold that is still ours; never makes one.
-- KEYS: lock, fence, holders, permits, info
-- ARGV: token, ttl in ms (0: its end stays), its fence, for how many ms we hold
--       it
-- Returns the ms that were left | {the same, 1}: somebody wants it
--       | -1 it is not ours
local L, F, H, P, I = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, ttl = ARGV[1], tonumber(ARGV[2])
local call = redis.call
local value = call('GET', L)
local function answer(left)
  if call('HGET', I, '!' .. token) then return { math.max(left, 0), 1 } end
  return math.max(left, 0)
end
if value == token then
  local left = call('PTTL', L)
  if ttl > 0 then call('PEXPIRE', L, ttl) end
  call('PEXPIRE', F, 86400000) -- before HSET, see below
  -- For inspect: a hold that came without a script, or from hand to hand.
  local note = ARGV[3] and call('HGET', I, token)
  if ARGV[3] and (not note or note:match('^%d+') ~= ARGV[3]) then
    local time = call('TIME')
    call('HSET', I, token, string.format('%s %.0f ', ARGV[3],
      time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[4]))
  end
  call('PEXPIRE', I, (ttl > 0 and ttl or math.max(left, 0)) + 1000)
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
call('PEXPIRE', F, 86400000)
if ttl > 0 then call('ZADD', H, now + ttl, token) end
settle(s)
return answer(ends - now)
