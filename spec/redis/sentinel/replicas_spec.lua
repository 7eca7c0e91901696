-- wait_replicas: a grant and a renewal count when so many replicas have them.
local core = require "dlock.core"
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local fake_server = require "spec.support.fake_server"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local uv = require "luv"

describe("with wait_replicas = 1,", function()
  local primary, replica, admin
  local opened, events = {}, {}

  before_each(function()
    primary = redis.start { ["repl-diskless-sync-delay"] = 0 }
    replica = redis.start { replicaof = "127.0.0.1 " .. primary.port }
    admin = primary:connect()
    admin:copied(1)
  end)

  after_each(function()
    process.close_all()
    for i = #opened, 1, -1 do
      local one = opened[i];
      (one.stop or one.close)(one, 1)
      opened[i] = nil
    end
    admin:close()
    replica:resume()
    replica:stop()
    primary:stop()
    events = {}
  end)

  local function later(one)
    opened[#opened + 1] = one
    return one
  end

  local function open(opts)
    local all = { url = primary.url, wait_replicas = 1,
      on_event = function(event) events[#events + 1] = event.kind end }
    for name, value in pairs(opts or {}) do all[name] = value end
    return later(assert(dlock.open(all)))
  end

  local function waits()
    return admin:command_counts().wait or 0
  end

  it("grants and renewals are confirmed, each by one request, and nothing else",
  function()
    local store = open { ttl = 2 }
    assert(store:ping())
    -- A replica that has just copied all data may be silent for a second.
    eventually("one WAIT a grant", 20, function()
      local before = waits()
      local lease = assert(store:lock("k", { ttl = 60 }))
      local granted = waits()
      assert(lease:release())
      assert.equal(granted, waits())
      return granted == before + 1
    end)
    local before = waits()
    local lease = assert(store:lock("k"))
    eventually("renewals", 10, function()
      assert(store:ping())
      return store:stats().renewed >= 2
    end)
    local renewed = store:stats().renewed
    assert.is_true(waits() - before - 1 >= renewed)
    assert.is_true(waits() - before - 1 <= renewed + 1)
    before = waits()
    assert(lease:release())
    assert.is_nil((store:inspect("k")))
    assert.is_true(waits() - before <= 1) -- a renewal
  end)

  it("a store that does not ask for it sends no WAIT", function()
    local store, before = open { wait_replicas = 0 }, waits()
    assert(assert(store:lock("k")):release())
    assert.equal(before, waits())
  end)

  it("nothing is granted without a replica, and nothing stays", function()
    local store = open { wait_timeout = 0.1 }
    replica:pause()
    for _, opts in ipairs { {}, { value = "x" } } do
      local lease, message, code = store:election("k"):try_acquire(opts)
      assert.is_nil(lease)
      assert.equal("unavailable", code)
      assert.is_truthy(message:find("0 of 1 replicas", 1, true), message)
    end
    local lease, message, code = store:lock("k", { timeout = 1 })
    assert.is_nil(lease)
    assert.equal("unavailable", code)
    assert.is_truthy(message:find("0 of 1 replicas", 1, true), message)
    eventually("nothing left", 5, function()
      assert(store:ping())
      return admin:has_nothing_of("dlock:k")
    end)
  end)

  it("who waits gets the lock when the replica is back", function()
    local store = open { wait_timeout = 0.1 }
    replica:pause()
    local waiter = process.spawn { script = [[
      local store = assert(require("dlock").open { url = arg[1],
        wait_replicas = 1, wait_timeout = 0.1 })
      print "ready"
      io.flush()
      print(store:lock("k", { timeout = 30 }))
      store:close(1)
    ]], args = { primary.url } }
    waiter:expect("^ready$")
    local _, _, code = store:try_lock("other")
    assert.equal("unavailable", code)
    replica:resume()
    assert.equal(0, (waiter:wait(30)))
    assert.matches("dlock.lease: k", waiter.out)
  end)

  it("a renewal without the replica does not move the deadline", function()
    local store = open { wait_timeout = 0.1 }
    local lease = assert(store:lock("k", { ttl = 2 }))
    local left = lease:remaining()
    local till = core.now() + left
    replica:pause()
    assert.is_true(lease:wait_lost(10))
    assert.is_true(core.now() <= till + 1)
    assert.is_false(lease:held())
    assert.is_true(store:stats().renew_failed > 0)
    assert.equal(0, store:stats().renewed)
  end)

  it("an extension without the replica is not done", function()
    local store = open { wait_timeout = 0.1 }
    local lease = assert(store:lock("k", { ttl = 20 }))
    replica:pause()
    local left = lease:remaining()
    local ok, _, code = lease:extend(60)
    assert.is_nil(ok)
    assert.equal("unavailable", code)
    assert.is_true(lease:remaining() <= left)
    assert.is_true((lease:release()))
  end)

  it("a lease that is detached and attached is one on replicas", function()
    local text = assert(assert(open { wait_timeout = 1 }:lock("k")):detach())
    local store = open { wait_timeout = 0.1 }
    replica:pause()
    local lease, _, code = store:attach(text)
    assert.is_nil(lease)
    assert.equal("unavailable", code)
    replica:resume()
    admin:copied(1)
    eventually("the string to be good again", 5, function()
      lease = store:attach(text)
      return lease
    end)
    assert.is_true((lease:release()))
  end)

  it("those who wait are handed the lock one after another", function()
    local waiters = {}
    for i = 1, 4 do
      waiters[i] = process.spawn { script = [[
        local store = assert(require("dlock").open { url = arg[1],
          wait_replicas = 1 })
        local fences = {}
        for i = 1, 20 do
          local lease = assert(store:lock("k", { timeout = 30 }))
          assert(lease:release())
        end
        print "done"
        store:close(1)
      ]], args = { primary.url }, stderr = "pipe" }
    end
    for i = 1, 4 do
      waiters[i]:wait(60)
      assert.equal("done\n", waiters[i].out .. waiters[i].err)
    end
    local store = open()
    assert.is_nil((store:inspect("k")))
  end)

  it("a connection that is lost before the answer leaves nothing", function()
    local between = later(proxy.start(primary.url))
    local store = open { url = between.url }
    assert(store:ping())
    replica:pause()
    between:cut_after("WAIT", { now = true })
    local lease, _, code = store:try_lock("k")
    assert.is_nil(lease)
    assert.equal("unavailable", code)
    replica:resume()
    admin:copied(1)
    assert.is_true((assert(store:lock("k", { timeout = 10 })):release()))
    eventually("nothing left", 5, function()
      assert(store:ping())
      return admin:has_nothing_of("dlock:k")
    end)
  end)

  it("a lock whose connection is lost before the answer is asked for again",
  function()
    local between = later(proxy.start(primary.url))
    replica:pause()
    local waiter = process.spawn { script = [[
      local store = assert(require("dlock").open { url = arg[1],
        wait_replicas = 1, wait_timeout = 20, io_timeout = 40 })
      local lease, message = store:lock("k", { timeout = 60 })
      print(lease and "got" or message)
      store:close(1)
    ]], args = { between.url } }
    eventually("a WAIT", 10, function()
      return admin:call("CLIENT", "LIST"):find("cmd=wait", 1, true)
    end)
    between:close()
    replica:resume()
    assert.equal(0, (waiter:wait(25)))
    assert.equal("got\n", waiter.out)
  end)

  -- Each in a coroutine and in a write of its own, if it is written. Returns
  -- how each ends ("ok", or its code), as a function that waits for that.
  local function meanwhile(calls)
    local said, open_calls = {}, #calls
    for i, call in ipairs(calls) do
      coroutine.wrap(function()
        local good, _, code = call()
        said[i], open_calls = good and "ok" or code, open_calls - 1
      end)()
      uv.run("nowait")
    end
    return function()
      eventually("the ends", 20, function() return open_calls == 0 end)
      return said
    end
  end

  it("all that comes while a WAIT is under way shares the next one", function()
    local store = open { host = "luv", wait_timeout = 1 }
    local lease
    meanwhile { function()
      lease = store:lock("held", { ttl = 60 })
      return lease
    end }()
    replica:pause()
    local calls, wanted, before = {}, {}, waits()
    for i = 1, 20 do
      wanted[i] = "unavailable"
      calls[i] = function() return store:try_lock("k" .. i) end
    end
    wanted[21] = "ok"
    calls[21] = function() return lease:release() end
    assert.same(wanted, meanwhile(calls)())
    assert.same({ "connect" }, events)
    local more = waits() - before
    assert.is_true(more <= 4, more)
  end)

  it("what a WAIT holds back outlives its connection", function()
    local store = open { host = "luv", wait_timeout = 20, io_timeout = 40 }
    assert.same({ "ok" }, meanwhile { function() return store:ping() end }())
    replica:pause()
    local function lock(key)
      return function() return store:lock(key, { timeout = 30 }) end
    end
    local first = meanwhile { lock "a" }
    eventually("a WAIT", 5, function()
      return admin:call("CLIENT", "LIST"):find("cmd=wait", 1, true)
    end)
    local others = meanwhile { lock "b", function() return store:ping() end,
      lock "c" }
    replica:resume()
    admin:call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert.same({ "ok", "ok", "ok" }, others())
    assert.same({ "ok" }, first())
  end)

  it("a primary that is demoted meanwhile has granted nothing", function()
    local store = open { io_timeout = 5, wait_timeout = 2 }
    assert(store:ping())
    replica:pause()
    local waiter = process.spawn { script = [[
      local store = assert(require("dlock").open { url = arg[1],
        wait_replicas = 1, wait_timeout = 2, io_timeout = 5 })
      assert(store:ping())
      print "ready"
      io.flush()
      print(select(3, store:try_lock("k")))
      store:close(1)
    ]], args = { primary.url } }
    waiter:expect("^ready$")
    eventually("a WAIT", 5, function()
      return admin:call("CLIENT", "LIST"):find("cmd=wait", 1, true)
    end)
    admin:call("REPLICAOF", "127.0.0.1", replica.port)
    assert.equal(0, (waiter:wait(20)))
    assert.equal("unavailable\n", waiter.out)
  end)

  -- Redis passes no command on to a replica that has copied all data, until
  -- that one says so: promoted before, it has nothing of what was given.
  it("a replica that is online and was passed no command counts for none",
  function()
    replica:stop()
    local copy = later(assert(primary:connect()))
    copy:call("REPLCONF", "capa", "eof")
    copy:send("PSYNC", "?", "-1")
    eventually("one that is online", 20, function()
      local text = admin:call("INFO", "replication")
      return text:find("connected_slaves:1", 1, true)
        and text:find("state=online", 1, true)
    end)
    assert(open({ wait_replicas = 0 }):lock("lost", { ttl = 60 }))
    local store = open { wait_timeout = 0.1 }
    local lease, message, code = store:try_lock("k")
    assert.is_nil(lease)
    assert.equal("unavailable", code)
    assert.is_truthy(message:find("0 of 1 replicas", 1, true), message)
    assert.is_nil(copy.input:find("dlock:lost", 1, true))
    copy:send("REPLCONF", "ACK", "0")
    eventually("what was held back", 20, function()
      return copy.input:find("dlock:lost", 1, true)
    end)
  end)

  -- The counter is made one of older data, as a primary's that took over.
  it("a counter is believed only when replicas confirmed it", function()
    local store = open { wait_timeout = 0.1 }
    replica:pause()
    local _, _, code = store:try_lock("k")
    assert.equal("unavailable", code)
    eventually("nothing left", 5, function()
      assert(store:ping())
      return admin:has_nothing_of("dlock:k")
    end)
    local counter = admin:call("KEYS", "~dlock:{*}:f:dlock:k")[1]
    local given = tonumber(admin:call("GET", counter))
    admin:call("DECRBY", counter, 6400000) -- 100 s
    replica:resume()
    admin:copied(1)
    local lease = assert(store:lock("k", { timeout = 10 }))
    assert.is_true(lease.fence > given)
    assert(lease:release())
  end)

  it("too few replicas are an event when one connects", function()
    replica:stop()
    eventually("no replica", 10, function()
      return admin:call("WAIT", 1, 1) == 0
    end)
    local store = open()
    assert(store:ping())
    assert(store:ping())
    assert.same({ "replicas", "connect" }, events)
  end)

  it("replicas that are there are no event, whatever is being written",
  function()
    for i = 1, 10 do
      admin:call("SET", "busy", i) -- they confirm it a second later
      assert(open():ping())
    end
    for _, kind in ipairs(events) do assert.equal("connect", kind) end
  end)
end)

describe('with wait_replicas = "all",', function()
  local primary, replicas, admin
  local opened, events = {}, {}

  local function add_replica()
    local one = redis.start { replicaof = "127.0.0.1 " .. primary.port }
    replicas[#replicas + 1] = one
    return one
  end

  before_each(function()
    replicas = {}
    primary = redis.start { ["repl-diskless-sync-delay"] = 0 }
    admin = primary:connect()
  end)

  after_each(function()
    for i = #opened, 1, -1 do opened[i]:close(1) end
    admin:close()
    for _, one in ipairs(replicas) do
      one:resume()
      one:stop()
    end
    primary:stop()
    opened, events = {}, {}
  end)

  local function open(opts)
    local all = { url = primary.url, wait_replicas = "all", wait_timeout = 0.2,
      on_event = function(event) events[#events + 1] = event.message end }
    for name, value in pairs(opts or {}) do all[name] = value end
    opened[#opened + 1] = assert(dlock.open(all))
    return opened[#opened]
  end

  local function fails(store, text)
    local lease, message, code = store:try_lock("k")
    assert.is_nil(lease)
    assert.equal("unavailable", code)
    assert.is_truthy(message:find(text, 1, true), message)
  end

  local function gives(store)
    assert(assert(store:lock("k", { timeout = 10 })):release())
  end

  it("each of them has to confirm", function()
    add_replica()
    add_replica()
    admin:copied(2)
    local store = open()
    gives(store)
    for _, one in ipairs(replicas) do
      one:pause()
      fails(store, "1 of 2 replicas")
      one:resume()
      gives(store)
    end
  end)

  it("a renewal needs each of them, too", function()
    add_replica()
    add_replica()
    admin:copied(2)
    local store = open { ttl = 2 }
    local lease = assert(store:lock("k"))
    replicas[2]:pause()
    assert.is_true(lease:wait_lost(10))
    assert.equal(0, store:stats().renewed)
  end)

  it("there has to be one", function()
    local store = open()
    fails(store, "0 of 1 replicas")
    assert.is_truthy(events[1]:find("0 of 1 replicas", 1, true), events[1])
    add_replica()
    gives(store)
  end)

  -- A replica that is in the middle of its copy has no lock at all.
  it("one that comes counts from its first word on", function()
    add_replica()
    admin:copied(1)
    local store = open()
    gives(store)
    local copy = assert(primary:connect())
    copy:send("PSYNC", "?", "-1") -- and confirms nothing
    eventually("one more", 10, function()
      local text = admin:call("INFO", "replication")
      return text:find("connected_slaves:2", 1, true)
    end)
    fails(store, "1 of 2 replicas")
    copy:close()
    eventually("one less", 10, function()
      local text = admin:call("INFO", "replication")
      return text:find("connected_slaves:1", 1, true)
    end)
    fails(store, "1 of 2 replicas") -- it may be the primary by now
  end)

  it("one that comes delays a lock that is waited for", function()
    add_replica()
    admin:copied(1)
    local store = open()
    gives(store)
    add_replica()
    gives(store)
    admin:copied(2)
    replicas[2]:pause()
    fails(store, "1 of 2 replicas")
  end)

  it("a smaller number is an event", function()
    add_replica()
    add_replica()
    admin:copied(2)
    assert(open { wait_replicas = 1 }:ping())
    assert.is_truthy(events[1]:find("wait_replicas is 1 of 2", 1, true),
      events[1])
    events = {}
    assert(open { wait_replicas = 2 }:ping())
    assert(open():ping())
    for _, message in ipairs(events) do
      assert.is_nil(message:find("wait_replicas", 1, true), message)
    end
  end)

  it("a user needs INFO", function()
    admin:call("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-info")
    local url = primary.url:gsub("//", "//u:p@")
    local _, message, code = open { url = url }:ping()
    assert.equal("denied", code)
    assert.is_truthy(message:find("refuses INFO", 1, true), message)
    assert(open { url = url, wait_replicas = 1 }:ping())
  end)
end)

describe("wait_replicas", function()
  local fake, store

  local function open(rules, opts)
    fake = fake_server.start(rules)
    local all = { url = fake.url, wait_replicas = 2 }
    for name, value in pairs(opts or {}) do all[name] = value end
    store = assert(dlock.open(all))
  end

  after_each(function()
    if store then store:close(1) end
    if fake then fake:stop() end
    store, fake = nil, nil
  end)

  it("is unsupported where WAIT is not known, and denied where it is not"
    .. " allowed; ping says so", function()
    open { WAIT = "-ERR unknown command 'WAIT'\r\n" }
    local _, message, code = store:ping()
    assert.equal("unsupported", code)
    assert.is_truthy(message:find("wait_replicas", 1, true), message)
    store:close(1)
    fake:stop()
    open { WAIT = "-NOPERM this user has no permissions to run the 'wait'"
      .. " command\r\n" }
    _, message, code = store:ping()
    assert.equal("denied", code)
    assert.is_truthy(message:find("WAIT", 1, true), message)
  end)

  it("waits for a short time only after it waited in vain", function()
    open({ WAIT = { ":2\r\n", ":1\r\n", ":1\r\n", ":2\r\n" } },
      { wait_timeout = 0.3 })
    local codes = {}
    for i = 1, 4 do
      local lease, _, code = store:try_lock("k" .. i)
      codes[i] = code or "got"
      if lease then assert(lease:release()) end
    end
    assert.same({ "unavailable", "unavailable", "got", "got" }, codes)
    local seen = {}
    for _, line in ipairs(fake:log()) do
      if line:find("^WAIT") then seen[#seen + 1] = line end
    end
    assert.same({ "WAIT 0 0", "WAIT 2 300", "WAIT 2 50", "WAIT 2 50",
      "WAIT 2 300" }, seen)
  end)

  -- The first grant sets no fences aside and is on too few replicas; before the
  -- second one somebody has queued, who came before the second waiter did.
  it("a grant that is given back says nothing of who queues", function()
    fake = fake_server.start [[
      local asked, replicas = 0, ":2\r\n"
      local answers = {
        "*2\r\n$4\r\nbusy\r\n$1\r\nx\r\n",
        "*7\r\n$4\r\nwait\r\n:100\r\n:1\r\n$1\r\n1\r\n:0\r\n$1\r\nx\r\n:0\r\n",
        "*3\r\n$3\r\ngot\r\n:5\r\n:0\r\n",
        "*4\r\n$3\r\ngot\r\n:6\r\n:1\r\n:60000000\r\n",
        "*3\r\n$3\r\ngot\r\n:9\r\n:0\r\n",
      }
      return function(name, words)
        if name == "WAIT" then return replicas end
        if not acquires(words) then return true end
        asked = math.min(asked + 1, #answers)
        replicas = asked == 3 and ":0\r\n" or ":2\r\n"
        return answers[asked]
      end
    ]]
    store = assert(dlock.open { url = fake.url, wait_replicas = 2,
      host = "luv" })
    local fences = {}
    for i = 1, 2 do
      coroutine.wrap(function()
        local lease = assert(store:lock("k", { timeout = 20 }))
        fences[i] = lease.fence
        lease:release()
      end)()
    end
    eventually("both had it", 20, function() return fences[2] end)
    assert.same({ 6, 9 }, fences)
  end)

  it('"all" is unsupported where no replicas are listed', function()
    fake = fake_server.start { ["INFO REPLICATION"] = "$0\r\n\r\n" }
    store = assert(dlock.open { url = fake.url, wait_replicas = "all" })
    local _, message, code = store:ping()
    assert.equal("unsupported", code)
    assert.is_truthy(message:find('wait_replicas = "all"', 1, true), message)
  end)

  it("has to fit: not longer than half of io_timeout, and not on other stores",
  function()
    for _, bad in ipairs { { wait_timeout = 1.1, wait_replicas = 1 },
        { io_timeout = 0.5, wait_replicas = 1 }, { wait_replicas = -1 },
        { wait_replicas = 1.5 }, { wait_replicas = "some" },
        { wait_timeout = 1.1, wait_replicas = "all" } } do
      bad.url = "redis://h"
      local none, message, code = dlock.open(bad)
      assert.is_nil(none)
      assert.equal("invalid", code)
      assert.is_truthy(message:find("wait_", 1, true), message)
    end
    for _, url in ipairs { "file:///tmp/x", "zookeeper://h" } do
      for _, count in ipairs { 1, "all" } do
        local none, message = dlock.open { url = url, wait_replicas = count }
        assert.is_nil(none)
        assert.is_truthy(message:find("'wait_replicas'", 1, true), message)
      end
      assert(dlock.open(url))
    end
  end)
end)
