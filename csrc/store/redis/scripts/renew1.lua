-- Extends an exclusive hold while its slot moves: no node has all its names.
-- KEYS: lock
-- ARGV: as renew.lua
-- Returns the ms that were left | -1 it is not ours
--@include alone
local ttl = tonumber(ARGV[2])
local value = redis.call('GET', KEYS[1])
if value ~= ARGV[1] then return not_alone(value) end
local left = redis.call('PTTL', KEYS[1])
if ttl > left or ttl > 0 and ARGV[5] == '1' then
  redis.call('PEXPIRE', KEYS[1], ttl)
end
return left
