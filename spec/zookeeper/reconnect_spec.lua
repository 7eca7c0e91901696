-- The ZooKeeper store's leases over a connection that is lost and had again,
-- when they have been held for longer than what their session began with.

local common = require "spec.zookeeper.common"
local proxy = require "spec.support.proxy"
local steady = require "spec.support.steady"
local uv = require "luv"
local zk = require "spec.support.zk"

local key, open = common.key, common.open

-- Looks at it all the time.
local function stays_held(lease, seconds)
  local start = common.now()
  while common.now() - start < seconds do
    assert.is_true(lease:held(), common.now() - start)
    uv.sleep(5)
  end
end

describe("a lease on ZooKeeper", function()
  local timed = steady(nil, common.clean_up)

  timed("that was held for longer than the session's timeout survives"
    .. " connections that are reset", function()
    local between, k = proxy.start(common.url), key()
    local store = open { url = between.url, session_timeout = 2 }
    local lease = assert(store:lock(k))
    stays_held(lease, 2.2)
    for _ = 1, 3 do
      assert.are.equal(1, between:reset())
      stays_held(lease, 0.7)
    end
    stays_held(lease, 2)
    assert(lease:release())
  end)

  timed("survives a leader that is killed and comes back", function()
    local ensemble, k = zk.start_ensemble(3), key()
    local store = open { url = ensemble.url, session_timeout = 8 }
    local leases = {}
    for i = 1, 3 do leases[i] = assert(store:lock(k .. i, { timeout = 20 })) end
    -- The chain of confirms carries them by then, not the session's opening.
    stays_held(leases[1], 5)
    local leader = ensemble[ensemble:leader()]
    leader:kill()
    uv.sleep(600)
    leader:start_again()
    local last = leases[1]:remaining()
    common.eventually("it is confirmed anew", function()
      assert.is_true(leases[1]:held())
      local left = leases[1]:remaining()
      local more = left > last
      last = left
      return more
    end)
    for i = 1, 3 do assert.is_true(leases[i]:release(10)) end
    common.clean_up()
    ensemble:stop()
  end)

  for _, count in ipairs { 2, 3, 4 } do
    it("finds the one of " .. count .. " servers that is there", function()
      local gates, addresses = {}, {}
      for i = 1, count do
        gates[i] = proxy.start(common.url)
        addresses[i] = gates[i].address
      end
      -- It is long before a session that finds nobody is given up.
      local store = open { session_timeout = 60,
        url = "zookeeper://" .. table.concat(addresses, ",") }
      local lease = assert(store:lock(key(), { timeout = 20 }))
      for round = 1, 2 * count do
        local there = gates[1 + round % count]
        there:refuse(false)
        for _, gate in ipairs(gates) do
          if gate ~= there then
            gate:refuse(true)
            gate:reset()
          end
        end
        assert(store:ping(20))
        assert.are.equal(1, there:stats().open)
      end
      assert.is_true(lease:held())
      assert(lease:release())
    end)
  end
end)
