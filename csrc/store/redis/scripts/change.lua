-- Whether the holder is another one than that of a fence. If not, its channel
-- is told of the next change for a while.
-- KEYS: lock, fence, permits, holders, info, news
-- ARGV: fence (0: nobody holds it, -1: a foreign client), channel, ms to be
--       told, or 0: no more
-- Returns -3 another one, or nobody; else PTTL of L
local L, F, P, H, I, N = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
--@include clock
if ARGV[3] == '0' then
  call('ZREM', N, ARGV[2])
  return -3
end
local value = call('GET', L)
local p = call('HGET', P, 'g')
local fence = '0'
if value and p and value == '~s' .. p then
  value = call('ZRANGEBYSCORE', H, digits(now + 1), '+inf', 'LIMIT', 0, 1)[1]
end
if value then
  fence = (call('HGET', I, value) or ''):match('^%d+')
    or value:find('^%x+:%x+:') and call('GET', F) or '-1'
end
if fence ~= ARGV[1] then
  call('ZREM', N, ARGV[2])
  return -3
end
call('ZADD', N, now, ARGV[2])
call('PEXPIRE', N, ARGV[3])
return call('PTTL', L)
