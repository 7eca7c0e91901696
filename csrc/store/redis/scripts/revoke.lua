-- Asks every holder (at most 1,000) to let go: by a mark that its next renewal
-- finds, then by a message.
-- KEYS: lock, fence, queue, waiters, holders, permits, info, news
-- Returns how many were asked
local L, F, Q, W, H, P, I, N =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
--@include clock
--@include state
--@include channel
--@include holders
local tokens = holders(state())
for _, token in ipairs(tokens) do
  call('HSET', I, '!' .. token, 1)
end
if #tokens > 0 then
  call('PEXPIRE', I, math.max(call('PTTL', L), 0) + 1000)
end
for _, token in ipairs(tokens) do
  redis.pcall('PUBLISH', channel(token), 'r ' .. token)
end
return #tokens
