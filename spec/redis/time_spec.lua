-- Time that is not what it seems, on Redis: retries, a machine that slept, a
-- server's clock that steps or stands still. Late replies: redis/faults_spec.

local clock = require "spec.support.clock"
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local uv = require "luv"

local _, _, digests = require("spec.sim.redis_model").texts()

local function now()
  return uv.hrtime() / 1e9
end

describe("time on redis:", function()
  local dir, private, admin, servers_clock

  setup(function()
    dir = server.new_dir()
    servers_clock = clock.new(dir)
    private = redis.start({}, nil, { DLOCK_TEST_CLOCK = servers_clock.path,
      LD_PRELOAD = dir .. "/clock.so" })
    admin = private:connect()
  end)

  teardown(function()
    admin:close()
    private:stop()
    server.remove_dir(dir)
  end)

  local stores = {}

  local function open(opts)
    opts = opts or {}
    opts.url = opts.url or private.url
    stores[#stores + 1] = assert(dlock.open(opts))
    return stores[#stores]
  end

  local function tear_down()
    servers_clock:go_on()
    for _, store in ipairs(stores) do store:close(1) end
    stores = {}
    process.close_all()
  end

  local timed = steady(nil, tear_down)

  -- Waits for the lock in a process of its own for longer than its ttl, and
  -- says whether it still has it then.
  local function patient(url, key)
    local p = process.spawn { args = { url, key }, script = [[
      local dlock = require "dlock"
      local store = assert(dlock.open(arg[1]))
      assert(store:ping())
      print "ready"
      io.read()
      local lease = assert(store:lock(arg[2],
        { ttl = 2, renew = false, timeout = 30 }))
      print("got", lease:held(), lease:remaining() > 0)
    ]] }
    p:expect("^ready")
    return p
  end

  it("a lease that was waited for longer than its ttl has all of it",
    function()
      local lease = assert(open():lock("patient", { ttl = 30 }))
      local p = patient(private.url, "patient")
      p:write("\n")
      eventually("it waits", 10, function()
        return admin:queued("dlock:patient") > 0
      end)
      local start = now()
      eventually("its ttl is over", 10, function()
        return now() - start > 2.2
      end)
      assert(lease:release())
      p:expect("^got\ttrue\ttrue$")
    end)

  it("each attempt has its own time", function()
    local between = proxy.start(private.url)
    local p = patient(between.url, "attempts")
    between:cut_after(digests.try)
    between:refuse(true)
    p:write("\n")
    eventually("its first attempt was granted", 10, function()
      return admin:call("EXISTS", "dlock:attempts") == 1
    end)
    local start = now()
    eventually("its ttl is over", 10, function() return now() - start > 2.2 end)
    between:refuse(false)
    p:expect("^got\ttrue\ttrue$")
    between:stop()
  end)

  it("a lease is over when the machine slept for longer than it",
    function()
      local c = clock.new(server.new_dir())
      local p = process.spawn { env = c.env, args = { private.url },
        script = [[
          local dlock = require "dlock"
          local store = assert(dlock.open(arg[1]))
          local lease = assert(store:lock("asleep", { ttl = 600 }))
          print("held", lease:held())
          io.read()
          print("slept", lease:held(), lease:remaining(), lease:wait_lost(5))
          print(select(3, lease:release()))
        ]] }
      p:expect("^held\ttrue$")
      c:step(1000)
      p:write("\n")
      p:expect("^slept\tfalse\t0%.?0?\ttrue$")
      p:expect("^lost$")
      assert.are.equal(0, (p:wait()))
    end)

  -- Nothing is asked on its connection until a renewal is due.
  it("a restarted server is noticed after a minute without a request",
    function()
      local restarted = redis.start()
      local c = clock.new(server.new_dir())
      local p = process.spawn { env = c.env, args = { restarted.url },
        script = [[
          local dlock = require "dlock"
          local store = assert(dlock.open(arg[1]))
          local lease = assert(store:lock("quiet", { ttl = 600 }))
          print("held", lease:held())
          io.read()
          print("quiet", lease:wait_lost(1.5))
          io.read()
          print("restarted", lease:wait_lost(20))
        ]] }
      p:expect("^held\ttrue$")
      c:step(70)
      p:write("\n")
      p:expect("^quiet\tnil") -- and the loop had its turns
      restarted:kill()
      restarted:start_again()
      p:write("\n")
      p:expect("^restarted\ttrue$", 30)
      assert.are.equal(0, (p:wait()))
      restarted:stop()
    end)

  timed("a server's clock that steps is reported, also to a holder that lost",
    function()
    local seen = {}
    local store = open { on_event = function(event)
      seen[#seen + 1] = event.kind
    end }
    local function told(kind)
      eventually("an event: " .. kind, 10, function()
        store:ping()
        return seen[#seen] == kind
      end)
    end
    -- Back: the lock has an hour left there.
    local lease = assert(store:lock("step", { ttl = 1.5 }))
    servers_clock:step(-3600)
    told("clock")
    assert.is_true(lease:held())
    assert(lease:release())
    -- Forth: the lock is gone there, and others may have it.
    lease = assert(store:lock("step", { ttl = 1.5 }))
    servers_clock:step(3660)
    local next_one = assert(open():lock("step", { timeout = 10 }))
    assert.is_true(next_one.fence > lease.fence)
    told("lost")
    assert.is_false(lease:held())
    assert.are.equal("lost", select(3, lease:release()))
    assert.is_true(next_one:held())
    assert(next_one:release())
  end)

  timed("a server's clock that stands still ends no wait late",
    function()
      local store = open()
      servers_clock:freeze()
      admin:call("SET", "dlock:still", "x", "PX", 300)
      local p = process.spawn { args = { private.url }, script = [[
        local store = assert(require("dlock").open(arg[1]))
        print(select(3, store:lock("still", { timeout = 1 })))
      ]] }
      p:expect("^timeout$", 10)
      assert.is_true(admin:call("PTTL", "dlock:still") > 0)
      assert.are.equal("busy", select(3, store:try_lock("still")))
      servers_clock:go_on()
      assert(assert(store:lock("still", { timeout = 10 })):release())
    end)

  -- Nothing has to be taken back, so nobody waits for the server's word.
  timed("a server that stands still delays no ping and no release for longer "
    .. "than they were given", function()
    local store = open { io_timeout = 20 }
    local lease = assert(store:lock("given", { ttl = 60 }))
    private:pause()
    local start = now()
    for _, call in ipairs { { store.ping, store }, { lease.release, lease } } do
      local got, message, code = call[1](call[2], 0.2)
      assert.is_nil(got)
      assert.are.equal("unavailable", code, message)
    end
    local took = now() - start
    private:resume()
    assert.is_true(took < 10, took)
    assert(assert(store:lock("given", { timeout = 10 })):release())
  end)
end)
