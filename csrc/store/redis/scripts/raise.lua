-- Extends a vote that is still ours, and raises the counter to its fence.
-- Its note gets that fence, of which others are told.
-- KEYS: lock, votes' counter, holders, permits, info, news
-- ARGV: as renew's, and the server's process
-- Returns as renew
local L, F, H, P, I, N =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, ttl, memory = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[6])
local fence, since = ARGV[3], ARGV[4]
local young, exactly = true, ARGV[5] == '1'
local call = redis.call
--@include memory
--@include write
--@include tell
if call('GET', L) ~= token then return -1 end
if fence ~= '0' then
  local known = call('HMGET', F, 'process', 'fence')
  if known[1] ~= ARGV[7] or tonumber(known[2]) < tonumber(fence) then
    write_first()
    call('HSET', F, 'process', ARGV[7], 'fence', fence)
  end
  local note = call('HGET', I, token)
  if note and note:match('^%d+') ~= fence then
    write_first()
    call('HSET', I, token, fence .. note:match(' .*$'))
    tell()
  end
end
--@include renewal
