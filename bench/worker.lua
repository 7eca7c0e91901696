-- A worker of bench/crowd.lua that uses dlock, on any store.
--   worker.lua URL pairs         acquire and release a lock of its own
--   worker.lua URL handoff MS   acquire the lock that all want, hold it for
--                                MS, release it

local dlock = require "dlock"
local uv = require "luv"

local url, verb, hold = arg[1], arg[2], tonumber(arg[3])
local store = assert(dlock.open(url))
local own = store:mutex("bench" .. uv.os_getpid())
-- Connects, starts threads, loads scripts, seeds the fence.
assert(assert(own:acquire()):release())

local verbs = {}

function verbs.pairs(stop)
  local count = 0
  repeat
    for _ = 1, 8 do
      assert(assert(own:acquire()):release())
    end
    count = count + 8
  until uv.hrtime() >= stop
  return count
end

function verbs.handoff(stop)
  local shared = store:mutex("bench", { timeout = 120 })
  local came, went = {}, {}
  local count = 0
  repeat
    local lease = assert(shared:acquire())
    local now = uv.hrtime()
    count = count + 1
    local in_time = now < stop
    if in_time then
      if hold > 0 then uv.sleep(hold) end
      came[count], went[count] = now, uv.hrtime()
    end
    assert(lease:release())
  until not in_time
  return count, came, went
end

local function processor_time(usage, kind)
  return usage[kind].sec * 1e6 + usage[kind].usec
end

print("ready")
io.stdout:flush()
local stop = assert(tonumber(io.read("*l")))
local before, start = uv.getrusage(), uv.hrtime()
local count, came, went = verbs[verb](stop)
local took, after = uv.hrtime() - start, uv.getrusage()
for i = 1, came and #came or 0 do
  print(("%.0f %.0f"):format(came[i], went[i]))
end
print(("done %d %.0f %.0f %.0f %.0f"):format(count, took,
  processor_time(after, "utime") - processor_time(before, "utime"),
  processor_time(after, "stime") - processor_time(before, "stime"),
  after.nvcsw - before.nvcsw))
io.stdout:flush()
io.read("*a")
store:close()
