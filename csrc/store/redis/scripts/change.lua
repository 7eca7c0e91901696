-- Whether the holder is another one than was seen. If not, its channel is told
-- of the next change for a while.
-- KEYS: lock, permits, holders, info, news
-- ARGV: who was seen: a fence that is written down (0: nobody held it, -1: a
--       foreign client), or the first 12 digits of a token and ':'; channel,
--       ms to be told, or 0: no more
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
  -- A hold that came without a script is known by its token. The counter says
  -- nothing of it: it rises also when others try in vain.
  id = ours(value) and string.sub(value, 1, 12) .. ':'
  fence = (call('HGET', I, value) or ''):match('^%d+') or id or '-1'
end
if ARGV[1] ~= fence and ARGV[1] ~= id then
  call('ZREM', N, ARGV[2])
  return -3
end
-- Who did not ask for as long as it was to be told is dead. The names last
-- while anybody asks on, so it goes here, a hundred at a time: otherwise they
-- would be more and more, and the oldest ones are told first.
local dead = call('ZRANGEBYSCORE', N, '-inf', digits(now - ARGV[3]), 'LIMIT',
  0, 100)
if dead[1] then call('ZREM', N, unpack(dead)) end
call('ZADD', N, now, ARGV[2])
call('PEXPIRE', N, ARGV[3])
return call('PTTL', L)
