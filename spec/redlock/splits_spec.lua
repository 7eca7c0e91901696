-- Redlock's votes where others have some of them: they are given back before
-- the next round, and rounds that split each other end.
local dlock = require "dlock"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local redlock = require "spec.support.redlock"

local _, _, digests = require("spec.sim.redis_model").texts()

describe("Redlock's split votes", function()
  local set, proxies

  -- The URL through a proxy before each server.
  local function start(delay)
    set, proxies = redlock.start(), {}
    local hosts = {}
    for i, node in ipairs(set.nodes) do
      proxies[i] = proxy.start(node.url)
      hosts[i] = proxies[i].address
      if delay then proxies[i]:delay("down", delay) end
    end
    return "redlock://" .. table.concat(hosts, ",")
  end

  after_each(function()
    process.close_all()
    for _, one in ipairs(proxies) do one:stop() end
    set:stop()
  end)

  it("are given back before the next round, and are no grant", function()
    local url = start()
    local warm = assert(dlock.open { url = url, node_timeout = 1 })
    assert(assert(warm:lock "k"):release())
    set:each(function(client, i)
      if i <= 3 then client:call("SET", "dlock:k", "another", "PX", 60000) end
    end)
    local free = proxies[4]
    loop.eventually("votes given back", 10, function()
      return free:count(digests.leave) > 0
    end)
    local votes, left = free:count(digests.vote), free:count(digests.leave)
    local one = process.spawn { script = [[
      local store = assert(require("dlock").open { url = arg[1],
        node_timeout = 1 })
      assert(store:lock("k", { timeout = 100 }))
      print "held"
      io.read()
      store:close()
    ]], args = { url } }
    for round = 1, 5 do
      assert(free:wait_for(digests.vote, { count = votes + round,
        timeout = 60 }))
      assert(free:count(digests.leave) >= left + round - 1, round)
    end
    set:each(function(client, i)
      if i <= 3 then client:call("DEL", "dlock:k") end
    end)
    one:expect("^held$", 60)
    one:write "\n"
    assert.are.equal(0, one:wait(20))
    warm:close(1)
  end)

  it("end: in a race far from the servers somebody holds soon, each time",
  function()
    local url, racers, times = start(0.03), {}, {}
    for i = 1, 8 do
      racers[i] = process.spawn { script = [[
        local dlock, core = require "dlock", require "dlock.core"
        local store = assert(dlock.open { url = arg[1], node_timeout = 1 })
        assert(store:ping(60))
        print "ready"
        io.read()
        for _ = 1, 3 do
          local lease = assert(store:lock("k", { timeout = 120 }))
          print(core.now())
          assert(lease:release())
          print(core.now())
        end
        store:close(5)
      ]], args = { url } }
    end
    for i = 1, 8 do racers[i]:expect("^ready$", 60) end
    for i = 1, 8 do racers[i]:write "\n" end
    for i = 1, 8 do
      for _ = 1, 3 do
        local from = tonumber(assert(racers[i]:read_line(120)))
        times[#times + 1] = { from = from,
          to = tonumber(assert(racers[i]:read_line(120))) }
      end
    end
    table.sort(times, function(a, b) return a.from < b.from end)
    for i = 2, #times do
      local free = times[i].from - times[i - 1].to
      assert(free < 10 * loop.patience, ("%d: %.2f s"):format(i, free))
    end
  end)
end)
