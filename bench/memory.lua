-- What bench/run measures of dlock's memory, on any store: by how many bytes
-- the process grew for each lease it holds, C and Lua together, when all have
-- been renewed once.
--   memory.lua URL LEASES
local dlock = require "dlock"
local uv = require "luv"

local TTL = 30

local url, leases = arg[1], tonumber(arg[2])
local store = assert(dlock.open { url = url, timeout = 60 })
local held = {}
for i = 1, leases do held[i] = false end
-- What there is anyhow: connections, threads, buffers.
assert(assert(store:lock("memory")):release())
collectgarbage()
local before = uv.resident_set_memory()
for i = 1, leases do
  held[i] = assert(store:lock("memory" .. i, { ttl = TTL }))
end
uv.sleep(TTL * 1000 / 3 + 2000)
collectgarbage()
print(("%.0f"):format((uv.resident_set_memory() - before) / leases))
for i = 1, leases do assert(held[i]:held(), "a lease was lost") end
store:close(60)
