-- Ends every hold, tells at most 1,000 holders, and lets the next ones in. Only
-- the end of the holds can be refused. DEL is sent though nobody holds, because
-- a server that became a replica refuses it.
-- KEYS: lock, fence, queue, waiters, holders, permits, info, news
-- ARGV: for how many ms the counter stays, 1: lift it (see fence)
-- Returns 1 if somebody held it, else 0
local L, F, Q, W, H, P, I, N =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local memory, lift = tonumber(ARGV[1]), ARGV[2] == '1'
--@include clock
--@include counter
--@include memory
--@include fence
--@include state
--@include channel
--@include standing
--@include kept
--@include place
--@include queue
--@include publish
--@include grant
--@include holders
local s = state()
local held, tokens = s.mode ~= nil, holders(s)
call('DEL', L, H, P, I)
s.mode, s.value, s.used, s.cap, s.clean = nil, false, 0, 0, true
for _, token in ipairs(tokens) do
  redis.pcall('PUBLISH', channel(token), 'b ' .. token)
end
let_in(s, held)
return held and 1 or 0
