-- What bench/run measures of dlock on Redis, each in a process of its own:
--   redis.lua pairs URL SECONDS        uncontended pairs a second
--   redis.lua worker URL KEY TURNS     waits for a line, then takes turns;
--                                      prints when each acquire and release
--                                      returned (ns), "done" at the end
--   redis.lua renew URL LEASES SECONDS CPU share of keeping that many leases

local dlock = require "dlock"
local uv = require "luv"

local verbs = {}

function verbs.pairs(url, seconds)
  local store = assert(dlock.open(url))
  local mutex = store:mutex("bench")
  assert(assert(mutex:acquire()):release()) -- connects, seeds the fence
  local start, count = uv.hrtime(), 0
  local stop = start + seconds * 1e9
  repeat
    for _ = 1, 64 do
      assert(assert(mutex:acquire()):release())
    end
    count = count + 64
  until uv.hrtime() >= stop
  print(("%.0f"):format(count / ((uv.hrtime() - start) / 1e9)))
  store:close()
end

function verbs.worker(url, key, turns)
  local store = assert(dlock.open(url))
  local mutex = store:mutex(key)
  assert(store:ping())
  local came, went = {}, {}
  print("ready")
  io.stdout:flush()
  io.read()
  for i = 1, turns do
    local lease = assert(mutex:acquire { timeout = 60 })
    came[i] = uv.hrtime()
    assert(lease:release())
    went[i] = uv.hrtime()
  end
  for i = 1, turns do
    print(("%.0f %.0f"):format(came[i], went[i]))
  end
  print("done")
  store:close()
end

local function cpu_seconds()
  local usage = uv.getrusage()
  return usage.utime.sec + usage.stime.sec
    + (usage.utime.usec + usage.stime.usec) / 1e6
end

function verbs.renew(url, leases, seconds)
  local store = assert(dlock.open(url))
  local held = {}
  for i = 1, leases do
    held[i] = assert(store:lock("renewed" .. i, { ttl = 30 }))
  end
  local before, start = cpu_seconds(), uv.hrtime()
  uv.sleep(seconds * 1000)
  local spent = cpu_seconds() - before
  local took = (uv.hrtime() - start) / 1e9
  for i = 1, leases do
    assert(held[i]:held(), "a lease was lost")
  end
  print(("%.4f"):format(spent / took))
  store:close()
end

verbs[arg[1]](arg[2], tonumber(arg[3]) or arg[3], tonumber(arg[4]))
