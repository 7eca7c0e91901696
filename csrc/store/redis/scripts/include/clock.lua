-- The server's clock. Scripts replicate by effect since Redis 5, so writes
-- may depend on it.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function digits(n) return string.format('%.0f', n) end
