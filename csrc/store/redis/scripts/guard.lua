-- A command, only while a token holds.
-- KEYS: lock, holders, permits, info
-- ARGV: token, command, its arguments
-- Returns {'lost'} | {'refused', the error's text} | {'done', the result}
local L, H, P, I = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
--@include clock
--@include state
if not holds(state(), ARGV[1]) then return { 'lost' } end
local result = redis.pcall(unpack(ARGV, 2))
if type(result) == 'table' and result.err then
  return { 'refused', result.err }
end
return { 'done', result }
