-- The hold of a detached token becomes another token's. The first one that asks
-- has it. A second request with the same token gets the same answer.
-- KEYS: lock, fence, holders, permits, info
-- ARGV: the detached token, ours, and the rest of renew's
-- Returns as renew
local L, F, H, P, I = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local old, token, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local fence, since, memory = ARGV[4], ARGV[5], tonumber(ARGV[7])
local young = false
local exactly = ARGV[6] == '1'
--@include clock
--@include memory
--@include state
--@include write
local found = state()
if holds(found, old) then
  -- Reads come before writes. Units that another program took away stay away.
  local shared, ends, units = found.mode ~= 'x', nil, nil
  if shared then
    ends, units = call('ZSCORE', H, old), call('HGET', P, old)
  end
  local notes = call('HMGET', I, old, '!' .. old)
  write_first()
  remember()
  if shared then
    call('ZADD', H, ends, token)
    call('ZREM', H, old)
    if units then call('HSET', P, token, units) end
    call('HDEL', P, old)
  else
    call('SET', L, token, 'KEEPTTL')
  end
  call('HDEL', I, old, '!' .. old)
  if notes[1] then call('HSET', I, token, notes[1]) end
  if notes[2] then call('HSET', I, '!' .. token, notes[2]) end
end
--@include renewal
