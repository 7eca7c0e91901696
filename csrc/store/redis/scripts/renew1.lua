-- Extends an exclusive hold while its slot moves: no node has all its names.
-- KEYS: lock
-- ARGV: as renew.lua
-- Returns the ms that were left | -1 it is not ours
local ttl = tonumber(ARGV[2])
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
local left = redis.call('PTTL', KEYS[1])
if ttl > left or ttl > 0 and ARGV[5] == '1' then
  redis.call('PEXPIRE', KEYS[1], ttl)
end
return left
