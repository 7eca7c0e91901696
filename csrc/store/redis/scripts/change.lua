-- Whether the holder changed. If not, a channel is told of the next change.
-- KEYS: lock, permits, holders, info, news
-- ARGV: the holder that was seen: its noted fence (0: nobody, -1: a foreign
--       client), or the first 12 digits of its token and ':', or 'any':
--       somebody; channel, ms to be told, or 0: no more
-- Returns -3 another one, or nobody; else PTTL of L
local L, P, H, I, N = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
--@include clock
--@include ours
--@include permits
if ARGV[3] == '0' then
  call('ZREM', N, ARGV[2])
  return -3
end
local value = call('GET', L)
local fence, id = '0', nil
if shared_by(value) then
  value = call('ZRANGEBYSCORE', H, digits(now + 1), '+inf', 'LIMIT', 0, 1)[1]
end
if value then
  -- A hold without a note is known by its token.
  id = ours(value) and string.sub(value, 1, 12) .. ':'
  fence = ARGV[1] == 'any' and 'any'
    or (call('HGET', I, value) or ''):match('^%d+') or id or '-1'
end
if ARGV[1] ~= fence and ARGV[1] ~= id then
  call('ZREM', N, ARGV[2])
  return -3
end
-- Channels that did not ask in time are dead: a hundred at a time go, since
-- the oldest are told first.
local dead = call('ZRANGEBYSCORE', N, '-inf', digits(now - ARGV[3]), 'LIMIT',
  0, 100)
if dead[1] then call('ZREM', N, unpack(dead)) end
call('ZADD', N, now, ARGV[2])
call('PEXPIRE', N, ARGV[3])
return call('PTTL', L)
