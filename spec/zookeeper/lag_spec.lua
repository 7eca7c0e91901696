-- A server of the ensemble that lags: the leader's messages to it are held, so
-- it serves the clients that it has from an older state, while the others go
-- on. What an admin is told by it has to be true all the same.

local common = require "spec.zookeeper.common"
local proxy = require "spec.support.proxy"
local zk = require "spec.support.zk"

local key, open = common.key, common.open

describe("ZooKeeper, a server that lags #zookeeper", function()
  local ensemble, link, holder, admin, patient

  setup(function()
    local links = {}
    ensemble = zk.start_ensemble(3, { sync_limit = 40,
      between = function(port)
        links[#links + 1] = proxy.start("127.0.0.1:" .. port)
        return links[#links].port
      end })
    local leader = ensemble:leader()
    assert.is_true(leader < 3)
    link = links[leader]
    holder = open { url = ensemble[leader].url, session_timeout = 10 }
    admin = open { url = ensemble[3].url, session_timeout = 10,
      io_timeout = 0.5 }
    patient = open { url = ensemble[3].url, session_timeout = 10,
      io_timeout = 10 } -- asks when it lags no more
  end)

  teardown(function()
    common.clean_up()
    ensemble:stop()
  end)

  -- Runs fn while the admin's server lags behind a lock that is held, and
  -- gives it the lease.
  local function behind(fn)
    local k = key()
    assert(admin:ping(10))
    assert(patient:ping())
    link:hold("down")
    local lease = assert(holder:lock(k))
    fn(lease, k)
    link:release("down")
    return lease, k
  end

  local function unavailable(result, message, code)
    assert.is_nil(result)
    assert.are.equal("unavailable", code, message)
  end

  it("breaks what is held, or says that it could not", function()
    local lease, k = behind(function(lease, k)
      unavailable(admin:break_lock(k))
      assert.is_true(lease:held())
    end)
    assert(patient:break_lock(k))
    assert.is_true(lease:wait_lost(10))
  end)

  it("asks who holds it, or says that it could not", function()
    local lease, k = behind(function(_, k)
      unavailable(admin:revoke(k))
    end)
    assert(patient:revoke(k))
    common.eventually("it is asked", function() return lease:revoked() end)
    assert(lease:release())
  end)

  it("does not take what is held for free", function()
    local lease, k = behind(function(_, k)
      unavailable(admin:inspect(k))
      unavailable(assert(admin:mutex(k)):locked())
      unavailable(assert(admin:election(k)):leader())
      unavailable(admin:list(k))
    end)
    assert.are.equal(lease.fence, assert(patient:inspect(k)).holders[1].fence)
    assert.is_true(assert(patient:mutex(k)):locked())
    assert.are.same({ k }, (assert(patient:list(k))))
    assert(lease:release())
  end)
end)
