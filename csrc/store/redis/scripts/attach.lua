-- A hold that was detached becomes another token's: the first one that asks
-- with its string has it, and for the others it is gone. Who asks twice with
-- the same token, because a reply was lost, is told the same. Then as renew.
-- KEYS: lock, fence, holders, permits, info
-- ARGV: the detached token, ours, and the rest of renew's
-- Returns as renew
local L, F, H, P, I = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local old, token, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local fence, since, memory = ARGV[4], ARGV[5], tonumber(ARGV[8])
local young = false
local number, ending = tonumber(ARGV[6]), tonumber(ARGV[7])
--@include clock
--@include memory
--@include state
--@include write
local found = state()
if holds(found, old) then
  write_first()
  remember()
  if found.mode == 'x' then
    call('SET', L, token, 'KEEPTTL')
  else
    call('ZADD', H, call('ZSCORE', H, old), token)
    call('ZREM', H, old)
    call('HSET', P, token, call('HGET', P, old))
    call('HDEL', P, old)
  end
  call('HDEL', I, '#' .. old)
  for _, mark in ipairs { '', '!' } do
    local note = call('HGET', I, mark .. old)
    if note then
      call('HSET', I, mark .. token, note)
      call('HDEL', I, mark .. old)
    end
  end
end
--@include renewal
