-- The server's clock. Scripts replicate by effect since Redis 5, so writes
-- may depend on it.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function digits(n) return string.format('%.0f', n) end
--@include range
-- For how many ms a hand-off is good, for who wants to hold for no less; and to
-- be believed to live, for who joins.
local CLAIM = '1000'
