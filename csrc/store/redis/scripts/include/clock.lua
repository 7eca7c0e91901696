-- The server's clock. Scripts replicate by effect, so writes may depend on it.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function digits(n) return string.format('%.0f', n) end
--@include range
-- ms of the longest claim; and for so long a newcomer counts as alive.
local CLAIM = '1000'
