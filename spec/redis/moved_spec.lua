-- Another server process answers than the one that granted: what is held is
-- renewed there at once, and so is there or lost, long before its time.
local core = require "dlock.core"
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"

describe("a redis server that was restarted", function()
  local server, store, events

  local function start(config)
    server, events = redis.start(config), {}
    store = assert(dlock.open { url = server.url, connect_timeout = 5,
      on_event = function(event) events[event.kind] = event end })
  end

  after_each(function()
    store:close(1)
    server:stop()
  end)

  local function restart()
    server:kill()
    server:start_again()
  end

  it("empty: what was held is lost before its next renewal is due", function()
    start()
    local one = assert(store:lock("a", { ttl = 60 }))
    local two = assert(store:lock("b", { ttl = 30 }))
    restart()
    local before = core.now()
    for _, lease in ipairs { one, two } do
      assert.is_true(lease:wait_lost(9))
      assert.is_false(lease:held())
    end
    assert.is_true(core.now() - before < 9)
  end)

  it("with its data: leases go on, and are renewed at once", function()
    start { appendonly = "yes", appendfsync = "always" }
    local lease = assert(store:lock("a", { ttl = 60 }))
    assert(lease:extend(60))
    local admin = server:connect()
    admin:call("PEXPIRE", "dlock:a", 30000)
    admin:close()
    restart()
    admin = server:connect()
    eventually("a renewal", 9, function()
      assert(store:ping())
      return admin:call("PTTL", "dlock:a") > 31000
    end)
    assert.is_true(lease:held())
    -- An extension that did not get there says nothing of clocks; what is
    -- missing of one that was made there does.
    assert(store:ping())
    assert.is_nil(events.clock)
    admin:call("PEXPIRE", "dlock:a", 30000)
    assert(lease:extend(60))
    eventually("the event", 9, function()
      assert(store:ping())
      return events.clock
    end)
    assert.is_true((lease:release()))
    admin:close()
  end)

  it("is not what a connection that was cut is taken for", function()
    start()
    local between = proxy.start(server.url)
    store:close(1)
    store = assert(dlock.open { url = between.url })
    local lease = assert(store:lock("a", { ttl = 60 }))
    local admin = server:connect()
    admin:call("PEXPIRE", "dlock:a", 30000)
    between:reset()
    for _ = 1, 20 do assert(store:ping()) end
    assert.is_true(admin:call("PTTL", "dlock:a") <= 30000)
    assert.is_true((lease:release()))
    admin:close()
    between:stop()
  end)

  -- After a hang the old connection is to be dropped, by its number. A process
  -- that was started since has given that number to somebody else. Without INFO
  -- nobody can tell that it is another process.
  for name, config in pairs { ["is told by INFO"] = {},
      ["may not be asked"] = { rename_command = { 'INFO ""' } } } do
    it("after a hang: no other program's connection is dropped; it " .. name,
    function()
      start(config)
      local others = {}
      local function connect()
        others[#others + 1] = server:connect()
        return others[#others]:call("CLIENT", "ID")
      end
      while connect() < 20 do end
      local between = proxy.start(server.url)
      store:close(1)
      store = assert(dlock.open { url = between.url, io_timeout = 0.5 })
      assert(assert(store:lock("a")):release())
      local id = tonumber(others[1]:call("CLIENT", "LIST")
        :match("id=(%d+)[^\n]* name=dlock "))
      server:pause()
      assert.equal("unavailable", (select(3, store:try_lock("a"))))
      between:hold("up")
      for _, one in ipairs(others) do one:close() end
      others = {}
      between:refuse(true) -- else the store might get that number
      restart()
      while connect() < id do end
      assert.equal(id, others[#others]:call("CLIENT", "ID"))
      between:refuse(false)
      between:release("up")
      eventually("it is connected", 20, function() return store:ping() end)
      assert(assert(store:lock("a", { timeout = 20 })):release())
      for _, one in ipairs(others) do
        assert.equal("PONG", one:call("PING"))
        one:close()
      end
      between:stop()
    end)
  end
end)
