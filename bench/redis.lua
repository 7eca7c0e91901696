-- What bench/run measures of dlock on Redis, each in a process of its own:
--   redis.lua worker URL KEY TURNS N   N waiters, all in the queue when it
--                                      says "ready"; then they take turns and
--                                      queue up again; prints when each acquire
--                                      and the release right after it returned
--                                      (ns), "done" at the end
--   redis.lua readers URL KEY N        N who wait for a read lock; prints when
--                                      the last one has it (ns), and how many
--                                      leases were lost a second later
--   redis.lua renew URL LEASES SECONDS CPU share of keeping that many leases

local core = require "dlock.core"
local dlock = require "dlock"
local engine = require "spec.support.engine"
local options = require "dlock.options"
local uv = require "luv"

local verbs = {}

-- One process can wait for many things only by the engine's own tickets.
function verbs.worker(url, key, turns, waiters)
  local store = assert(dlock.open(url))
  local first = assert(store:lock(key .. "-other"))
  local client = core.client(first)
  first:release()
  local tickets, came, went = {}, {}, {}
  local function queue_up(i)
    tickets[i] = assert(engine.acquire(client.engine, key, { timeout = 60 }))
  end
  for i = 1, waiters do queue_up(i) end
  assert(store:ping()) -- answered after all that was sent before
  print("ready")
  io.stdout:flush()
  for i = 1, turns do
    while not core.drive(tickets[i], 60) do end
    local lease = assert(core.finish(tickets[i]))
    came[i] = uv.hrtime()
    assert(lease:release())
    went[i] = uv.hrtime()
    tickets[i] = nil
    if i + waiters <= turns then queue_up(i + waiters) end
  end
  for i = 1, turns do
    print(("%.0f %.0f"):format(came[i], went[i]))
  end
  print("done")
  store:close()
end

function verbs.readers(url, key, count)
  local store = assert(dlock.open(url))
  local other = assert(store:lock(key .. "-other" .. uv.os_getpid()))
  local client = core.client(other)
  other:release()
  local acquire = client.engine:prepare(
    options.defaults { fair = true, local_handoffs = 0 },
    { units = 1, cap = 0 }, key)
  local tickets, held, lost = {}, {}, 0
  for i = 1, count do tickets[i] = assert(acquire(true, { timeout = 600 })) end
  assert(store:ping())
  print("ready")
  io.stdout:flush()
  for i = 1, count do
    while not core.drive(tickets[i], 60) do end
    held[i] = assert(core.finish(tickets[i]))
  end
  local at = uv.hrtime()
  uv.sleep(1000)
  for i = 1, count do lost = lost + (held[i]:held() and 0 or 1) end
  print(("in at %.0f, lost %d"):format(at, lost))
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

verbs[arg[1]](arg[2], tonumber(arg[3]) or arg[3], tonumber(arg[4]),
  tonumber(arg[5]))
