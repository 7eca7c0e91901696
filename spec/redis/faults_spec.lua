-- Faults of the network, of the server and of other clients, on a real server
-- behind a proxy. docs/faults.md has the list.

local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local locker = require "spec.support.locker"
local private_redis = require "spec.support.private_redis"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local steady = require "spec.support.steady"
local uv = require "luv"

local _, _, digests = require("spec.sim.redis_model").texts()
local private, admin

local function worker(url, key)
  return locker(url, key, { ttl = 10, io_timeout = 1 })
end

local function parts(key)
  return admin:parts_of("dlock:" .. key)
end

local function queued(key)
  return admin:queued("dlock:" .. key)
end

local function gone(key)
  return admin:has_nothing_of("dlock:" .. key)
end

describe("redis faults:", function()
  private_redis(function(...) private, admin = ... end)

  local p, store

  local function set_up()
    admin:call("FLUSHALL")
    p = proxy.start(private.url)
    store = assert(dlock.open { url = p.url, io_timeout = 0.5 })
    assert(store:ping())
  end

  local function tear_down()
    store:close(1)
    p:stop()
    process.close_all()
  end

  -- Each depends on a short time-out, or on a short time to live.
  local it = steady(set_up, tear_down)

  -- Uses a key, so that its counter is known, and the server has the small
  -- script for what follows.
  local function warm(key)
    for _ = 1, 2 do assert(assert(store:try_lock(key)):release()) end
  end

  it("a reply that comes when the ttl is over is no lock", function()
    warm("tardy")
    p:delay("down", 0.3)
    local got, message, code = store:try_lock("tardy", { ttl = 0.2 })
    assert.is_nil(got)
    assert.are.equal("unavailable", code)
    assert.is_truthy(message:find("too late", 1, true), message)
    p:delay("down", 0)
    eventually("nothing is left", 2, function() return gone("tardy") end)
  end)

  it("a reply that comes after its time is dropped", function()
    p:hold("down")
    assert.are.equal("unavailable", select(3, store:ping()))
    p:release("down")
    for i = 1, 5 do
      local lease = assert(store:lock("after" .. i, { timeout = 5 }))
      assert.is_true(store:mutex("after" .. i):locked())
      assert.is_false(store:mutex("before" .. i):locked())
      assert(lease:release())
    end
  end)

  it("the reply to a try is lost: it tries again, one key, no orphan",
    function()
      warm("lost")
      p:cut_after(digests.take)
      local lease = assert(store:try_lock("lost"))
      assert.is_true(lease:held())
      assert(p:wait_for("KILL"))
      assert(lease:release())
      eventually("nothing is left", 2, function() return gone("lost") end)
    end)

  it("lost, and the server out of reach: taken back later", function()
    warm("orphan")
    p:cut_after(digests.take)
    p:refuse(true)
    local got, _, code = store:try_lock("orphan", { ttl = 60 })
    assert.is_nil(got)
    assert.are.equal("unavailable", code)
    assert.are.equal(1, admin:call("EXISTS", "dlock:orphan"))
    p:refuse(false)
    eventually("the orphan is taken back", 10, function()
      return gone("orphan")
    end)
  end)

  -- The request waits in the server's memory, and is done after its ttl is over
  -- here: from then on the server counts the ttl.
  it("a server that is silent for longer than the ttl: taken back then",
    function()
      warm("silent")
      private:pause()
      local got, _, code = store:try_lock("silent", { ttl = 3 })
      assert.is_nil(got)
      assert.are.equal("unavailable", code)
      uv.sleep(3100)
      private:resume()
      assert.is_truthy(admin:call("PING"))
      eventually("the orphan is taken back", 2, function()
        return gone("silent")
      end)
    end)

  it("the reply to a release is lost: it was released", function()
    local lease = assert(store:try_lock("rel"))
    p:cut_after(digests.release)
    assert(lease:release())
    assert.is_true(gone("rel"))
  end)

  it("released late, with a new holder: lost, and untouched", function()
    local lease = assert(store:try_lock("late"))
    admin:call("DEL", "dlock:late")
    local w = worker(private.url, "late")
    w:write("lock\n")
    w:expect("^got")
    local ok, _, code = lease:release()
    assert.is_nil(ok)
    assert.are.equal("lost", code)
    assert.are.equal(1, admin:call("EXISTS", "dlock:late"))
    w:write("release\n")
    w:expect("^released$")
  end)

  it("a delayed SET never lands after its clean-up", function()
    warm("delayed")
    p:hold("up", { sent = digests.take })
    local got, _, code = store:try_lock("delayed", { ttl = 60 })
    assert.is_nil(got)
    assert.are.equal("unavailable", code)
    assert(p:wait_for("KILL"))
    assert.is_true(gone("delayed"))
    p:release("up")
    -- The bytes have reached the server once it hung up on them.
    eventually("the old connection is gone", 5, function()
      return not admin:call("CLIENT", "LIST"):find("cmd=evalsha") and
        p:stats().open <= 1
    end)
    assert.is_true(gone("delayed"))
  end)

  it("an idle connection closed by the server is not seen by users", function()
    admin:call("CONFIG", "SET", "timeout", "1")
    eventually("the server closes it, and the proxy passes it on", 5, function()
      return not admin:call("CLIENT", "LIST"):find("name=dlock ")
        and p:stats().ended == p:stats().open
    end)
    admin:call("CONFIG", "SET", "timeout", "0")
    local lease = assert(store:try_lock("idle"))
    assert(lease:release())
    assert.are.equal(0, p:count("KILL"))
  end)

  it("the script cache is emptied all the time", function()
    for i = 1, 50 do
      if i % 2 == 0 then admin:call("SCRIPT", "FLUSH") end
      local lease = assert(store:try_lock("flush"))
      admin:call("SCRIPT", "FLUSH")
      assert(lease:extend())
      admin:call("SCRIPT", "FLUSH")
      assert(lease:release())
    end
  end)

  it("fences rise over FLUSHALL, DEL and restart", function()
    local other = redis.start()
    local r = other:connect()
    local s = assert(dlock.open(other.url))
    local last = 0
    for i = 1, 30 do
      local lease = assert(s:lock("fence", { timeout = 5 }))
      assert.is_true(lease.fence > last, i)
      assert.is_true(lease.fence < 1e14)
      last = lease.fence
      lease:release()
      if i % 3 == 0 then
        r:call("FLUSHALL")
      elseif i == 20 then
        r:close()
        other:kill()
        other:start_again()
        r = other:connect()
      end
    end
    s:close()
    r:close()
    other:stop()
  end)

  it("a hold whose key is deleted has the smaller fence", function()
    local one = assert(store:try_lock("del"))
    admin:call("DEL", "dlock:del")
    local two = assert(store:try_lock("del"))
    assert.is_true(two.fence > one.fence)
    assert.are.equal("lost", select(3, one:release()))
    assert(two:release())
  end)

  it("the hand-off message is lost: the next refresh finds it", function()
    local lease = assert(store:try_lock("missed"))
    local w = worker(p.url, "missed")
    w:write("lock\n")
    eventually("it queues", 5, function() return queued("missed") == 1 end)
    p:drop_messages("down", 1, "message", { sent = "SUBSCRIBE" })
    local start = uv.hrtime()
    assert(lease:release())
    w:expect("^got")
    assert.is_true((uv.hrtime() - start) / 1e9 < 1.5)
    w:write("release\n")
    w:expect("^released$")
    eventually("nothing is left", 2, function() return gone("missed") end)
  end)

  it("a foreign client deletes a key that never expires", function()
    admin:call("SET", "dlock:foreign", "x")
    local w = worker(p.url, "foreign")
    w:write("lock\n")
    eventually("it queues", 5, function() return queued("foreign") == 1 end)
    admin:call("DEL", "dlock:foreign")
    w:expect("^got", 1.5)
  end)

  it("a hand-off message that is late by a claim and a re-join", function()
    local first = assert(store:try_lock("stale"))
    local w = worker(p.url, "stale")
    w:write("lock\n")
    eventually("it queues", 5, function() return queued("stale") == 1 end)
    p:hold("down", { sent = "SUBSCRIBE" })
    assert(first:release())
    w:expect("^got") -- by its refresh
    w:write("release\n")
    w:expect("^released$")
    local direct = assert(dlock.open(private.url))
    local second = assert(direct:try_lock("stale"))
    local value = admin:call("GET", "dlock:stale")
    w:write("lock\n")
    eventually("it queues", 5, function() return queued("stale") == 1 end)
    p:release("down")
    -- The late message is for an old token: the holder keeps the lock.
    assert.is_nil(w:read_line(0.5))
    assert.are.equal(value, admin:call("GET", "dlock:stale"))
    assert.is_true(second:held())
    assert(second:release())
    w:expect("^got")
    direct:close()
  end)

  it("a waiter keeps its place when its reply is lost", function()
    local lease = assert(store:try_lock("place"))
    local one, two = worker(p.url, "place"), worker(private.url, "place")
    one:write("lock\n")
    eventually("one queues", 5, function() return queued("place") == 1 end)
    two:write("lock\n")
    eventually("two queues", 5, function() return queued("place") == 2 end)
    p:cut_after(digests.refresh)
    assert(p:wait_for(digests.join, { count = 2 }))
    eventually("the old token is gone", 3, function()
      return queued("place") == 2
    end)
    assert(lease:release())
    local _, fence = one:expect("^got (%d+)")
    one:write("release\n")
    local _, later = two:expect("^got (%d+)")
    assert.is_true(tonumber(later) > tonumber(fence))
    two:write("release\n")
    two:expect("^released$")
    eventually("nothing is left", 3, function() return gone("place") end)
  end)

  it("renewal goes on after the connection was cut", function()
    local lease = assert(store:try_lock("renewed", { ttl = 1 }))
    for _ = 1, 3 do
      p:reset()
      local renewals = p:count(digests.renew)
      assert(p:wait_for(digests.renew, { count = renewals + 1 }))
    end
    assert.is_true(lease:held())
    assert(lease:release())
  end)

  it("a hold that is gone is lost, and never made again", function()
    local lease = assert(store:try_lock("killed", { ttl = 1 }))
    admin:call("DEL", "dlock:killed")
    assert(lease:wait_lost(3))
    assert.is_false(lease:held())
    assert.are.equal(0, admin:call("EXISTS", "dlock:killed"))
  end)

  it("a server clock that stepped is reported", function()
    local seen = {}
    local direct = assert(dlock.open { url = private.url,
      on_event = function(event) seen[event.kind] = event end })
    local lease = assert(direct:try_lock("clock", { ttl = 1 }))
    admin:call("PEXPIRE", "dlock:clock", 3600000)
    eventually("the event comes", 9, function()
      direct:ping()
      return seen.clock
    end)
    assert(lease:release())
    direct:close()
  end)

  it("the message `broken` ends a lease at once", function()
    local lease = assert(store:try_lock("broken", { ttl = 6 }))
    local token = admin:call("GET", "dlock:broken")
    local channel = "~dlock:c:" .. token:sub(34, 49)
    -- Subscribed at the first renewal.
    eventually("it listens", 5, function()
      return admin:call("PUBSUB", "NUMSUB", channel)[2] == 1
    end)
    admin:call("DEL", "dlock:broken")
    local start = uv.hrtime()
    admin:call("PUBLISH", channel, "b " .. token)
    assert(lease:wait_lost(3))
    assert.is_true((uv.hrtime() - start) / 1e9 < 1)
  end)

  -- No more is ever believed than the server keeps. That is asked for first:
  -- both run on, so what is read later is less, however much later.
  local function covered(lease, key)
    local kept = math.max(admin:call("PTTL", "dlock:" .. key), 0)
    return lease:remaining() * 1000 <= kept
  end

  it("an extension that crosses a renewal", function()
    local lease = assert(store:try_lock("cross", { ttl = 1.2 }))
    eventually("its renewal is near", 3, function()
      return lease:remaining() < 0.9
    end)
    p:delay("down", 0.3)
    assert(lease:extend(20))
    p:delay("down", 0)
    assert(store:ping()) -- behind whatever was sent meanwhile
    assert.is_true(covered(lease, "cross"))
    assert.is_true(lease:remaining() > 15)
    assert(lease:release())
  end)

  it("an extension for less, whose reply is lost", function()
    local lease = assert(store:try_lock("less", { ttl = 30 }))
    p:cut_after(digests.renew)
    p:refuse(true)
    assert.are.equal("unavailable", select(3, lease:extend(3)))
    assert.is_true(lease:held())
    assert.is_true(covered(lease, "less"))
    p:refuse(false)
    eventually("it is renewed", 3, function()
      return lease:remaining() > 20
    end)
    assert.is_true(covered(lease, "less"))
    assert(lease:release())
  end)

  -- It is being released then, even if another process would have attached it.
  it("a detach that is answered when the lease is over says lost", function()
    local lease = assert(store:try_lock("late", { ttl = 0.8, renew = false }))
    eventually("its end is near", 3, function()
      return lease:remaining() < 0.25
    end)
    p:delay("down", 0.3)
    assert.are.equal("lost", select(3, lease:detach()))
    p:delay("down", 0)
    eventually("it is released", 3, function() return gone("late") end)
  end)

  it("min_hold counts, however many dead ones wait", function()
    local lease = assert(store:semaphore("min2", 2):acquire { ttl = 30,
      min_hold = 20 })
    local queue = admin:call("KEYS", "~dlock:{*}:p:dlock:min2")[1]
      :gsub(":p:", ":q:", 1)
    local dead = {}
    for i = 1, 1500 do
      dead[2 * i - 1], dead[2 * i] = i, "dead" .. i
    end
    admin:call("ZADD", queue, (table.unpack or unpack)(dead))
    assert(lease:release())
    assert.are.equal(0, admin:call("EXISTS", queue))
    assert.are.equal(1, #assert(store:inspect("min2")).holders)
    assert(store:break_lock("min2"))
  end)

  it("a process that dies before its first fence leaves no counter for ever",
    function()
      p:hold("down")
      assert.are.equal("unavailable", select(3, store:try_lock("early")))
      local names = admin:call("KEYS", "~dlock:{*}:f:dlock:early")
      assert.is_true(tonumber(admin:call("GET", names[1])) > 1e12)
      assert.is_true(admin:call("PTTL", names[1]) > 0)
      p:release()
      eventually("it is taken back", 5, function() return gone("early") end)
    end)

  it("a wait that times out or is cancelled leaves nothing", function()
    local lease = assert(store:try_lock("left"))
    local direct, before = assert(dlock.open(private.url)), parts("left")
    assert(direct:ping())
    for _ = 1, 3 do
      assert.are.equal("timeout",
        select(3, direct:lock("left", { timeout = 0.3 })))
      assert.are.same(before, parts("left"))
    end
    assert(lease:release())
    direct:close()
    assert.is_true(gone("left"))
  end)

  it("the next in line dies right after the hand-off", function()
    local lease = assert(store:try_lock("heir"))
    local one, two = worker(private.url, "heir"), worker(private.url, "heir")
    one:write("lock\n")
    eventually("one queues", 5, function() return queued("heir") == 1 end)
    two:write("lock\n")
    eventually("two queues", 5, function() return queued("heir") == 2 end)
    one:pause() -- alive to the server, dead to the lock
    local start = uv.hrtime()
    assert(lease:release())
    two:expect("^got")
    assert.is_true((uv.hrtime() - start) / 1e9 < 2)
    one:resume()
  end)
end)
