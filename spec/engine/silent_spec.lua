-- A holder whose server says nothing any more, on a connection that stands: it
-- tries to renew, and waits. It must not keep a processor busy meanwhile,
-- whoever runs its loop.
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"

local SCRIPT = [[
  local uv = require "luv"
  local dlock = require "dlock"
  local url, key, how = arg[1], arg[2], arg[3]
  local store = assert(dlock.open { url = url, ttl = 4, io_timeout = 0.5,
    host = how == "loop" and "luv" or "blocking" })
  local function now()
    local u = uv.getrusage()
    return u.utime.sec + u.stime.sec + (u.utime.usec + u.stime.usec) / 1e6
  end
  local function work()
    local leases = {}
    for i = 1, 5 do
      leases[i] = assert(store:lock(key .. i, { timeout = 20 }))
      assert(leases[i]:extend()) -- so that it is renewed
    end
    print "held"
    assert(io.read() == "silent")
    local before = now()
    if how == "thread" then
      uv.sleep(4000)
    else
      leases[1]:wait_lost(4)
    end
    print(("%.3f"):format(now() - before))
    io.read()
    for i = 1, 5 do leases[i]:release() end
    store:close(5)
  end
  if how == "loop" then
    coroutine.wrap(work)()
    uv.run()
  else
    work()
  end
]]

describe("a holder whose server is silent", function()
  after_each(function() process.close_all() end)

  it("waits without work", function()
    local gates, holders = {}, {}
    for _, name in ipairs { "REDIS", "REDISS", "ZOOKEEPER" } do
      local between = proxy.start(assert(os.getenv("DLOCK_TEST_" .. name)))
      gates[#gates + 1] = between
      for _, how in ipairs { "thread", "caller", "loop" } do
        local p = process.spawn { script = SCRIPT,
          args = { between.url, "silent-" .. name .. how, how } }
        holders[name .. " " .. how] = p
        p:expect("^held$")
      end
    end
    for _, between in ipairs(gates) do between:hold("down") end
    for _, p in pairs(holders) do p:write("silent\n") end
    for name, p in pairs(holders) do
      local busy = tonumber(p:read_line(30))
      assert(busy < 0.12, name .. ": " .. busy) -- of 4 seconds
    end
    for _, between in ipairs(gates) do between:release("down") end
    for _, p in pairs(holders) do
      p:write("over\n")
      p:wait(30)
    end
  end)
end)
