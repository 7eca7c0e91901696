-- A process of spec/failover/redis.lua: takes a lock again and again,
-- holds it for a while, and writes down what it believed, in seconds on the
-- clock that all processes of the machine share.
-- usage: redis_worker.lua FILE URL KEY WAIT_REPLICAS SHORTEST LONGEST
--   h FENCE FROM TO HOW   it believed to hold the lock; how that ended:
--                         released, lost, or the code of the release
--   c WHAT FROM TO CODE   a call, and how it ended (good: ok)
local core = require "dlock.core"
local dlock = require "dlock"
local uv = require "luv"

local file, url, key = arg[1], arg[2], arg[3]
local replicas = tonumber(arg[4]) or arg[4]
local shortest, longest = tonumber(arg[5]), tonumber(arg[6]) -- seconds
local TIMEOUT, TTL = 10, 2

local out = assert(io.open(file, "w"))
out:setvbuf("line")
local store = assert(dlock.open { url = url, wait_replicas = replicas,
  ttl = TTL, timeout = TIMEOUT })

local function call(what, fn, ...)
  local from = core.now()
  local result, _, code = fn(...)
  out:write(("c %s %.6f %.6f %s\n"):format(what, from, core.now(),
    result and "ok" or code))
  return result, code
end

-- Until it was held for long enough, or is not any more.
local function hold(lease)
  local from = core.now()
  local till = from + shortest + math.random() * (longest - shortest)
  local believed = from
  repeat -- it was held at a time that was read before
    local now = core.now()
    local held = lease:held()
    believed = held and now or believed
    if till - now > 0.01 then uv.sleep(2) end
  until not held or now >= till
  local ok, code = call("release", lease.release, lease)
  out:write(("h %.0f %.6f %.6f %s\n"):format(lease.fence, from, believed,
    ok and "released" or code))
end

math.randomseed(tonumber(tostring(core.now() * 1e6):match("(%d%d%d%d%d)%.?")
  or 1))
print "ready"
io.flush()
local stop = false
while not stop do
  local lease = call("lock", store.lock, store, key)
  if lease then hold(lease) end
  -- Whoever ends us closes our input's other side by a file.
  local ended = io.open(file .. ".stop")
  stop = ended ~= nil
  if ended then ended:close() end
end
store:close(5)
