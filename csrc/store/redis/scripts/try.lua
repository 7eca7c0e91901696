-- Takes a lock that is free, or has room, and keeps no place in its queue. Lets
-- in those who wait before it.
-- KEYS: lock, fence, queue, waiters, holders, permits, info, news
-- ARGV: token, ttl in ms, units, cap, for how many ms the counter stays,
--       1: lift it (see fence), what an election publishes (may be missing)
-- Returns {'got', fence}
--       | {'busy', what L holds}
--       | {'limit'}: others share, or wait, under another limit
local L, F, Q, W, H, P, I, N =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local token, ttl, units, cap = ARGV[1], ARGV[2], tonumber(ARGV[3]),
  tonumber(ARGV[4])
local memory, lift = ARGV[5], ARGV[6] == '1'
--@include clock
--@include channel
--@include counter
--@include memory
--@include kept
--@include standing
--@include place
--@include queue
--@include fence
--@include state
--@include publish
--@include grant
--@include limit

-- A dead one at the end of the queue says nothing.
local function other_limit_at_end(s)
  local ahead = units > 0 and call('ZRANGE', Q, -1, -1, 'WITHSCORES') or {}
  local w = ahead[1] and waiter(ahead[1], ahead[2])
  return (not ahead[1] or w and alive(ahead[1], w)) and other_limit(s, w)
end

local s = state()
if call('EXISTS', Q) == 1 then grant(s) end
if call('EXISTS', Q) == 0 and fits(s, units, cap) then
  return { 'got', (give_any(s, token, { units = units, cap = cap,
    value = ARGV[7] }, ttl)) }
end
if other_limit_at_end(s) then return { 'limit' } end
return { 'busy', s.value or '' }
