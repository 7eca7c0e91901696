-- redis+sentinel:// where servers are cut off, hang, or have another clock.
-- What the Sentinels say is made up, so each step is there when it is wanted.
local clock = require "spec.support.clock"
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local fake_server = require "spec.support.fake_server"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local server = require "spec.support.server"

local function bulk(text)
  return ("$%d\r\n%s\r\n"):format(#tostring(text), tostring(text))
end

local function naming(port, epoch)
  local address = "*2\r\n" .. bulk("127.0.0.1") .. bulk(port)
  return {
    ["SENTINEL MASTER"] = "*2\r\n" .. bulk("config-epoch") .. bulk(epoch),
    ["SENTINEL GET-MASTER-ADDR-BY-NAME"] = address,
  }
end

describe("with Sentinels,", function()
  local opened, old, new, there, dir

  local function later(one)
    opened[#opened + 1] = one
    return one
  end

  -- A primary and its replica, which may have a clock of its own.
  local function start(env)
    old = later(redis.start { ["repl-diskless-sync-delay"] = 0 })
    new = later(redis.start({ replicaof = "127.0.0.1 " .. old.port }, nil, env))
    there = later(new:connect())
    eventually("a replica that is up to date", 10, function()
      return there:call("INFO", "replication"):find("master_link_status:up")
    end)
  end

  before_each(function()
    opened, dir = {}, server.new_dir()
  end)

  after_each(function()
    process.close_all()
    for i = #opened, 1, -1 do
      local one = opened[i]
      if one.resume then one:resume() end
      (one.stop or one.close)(one, 1)
    end
    server.remove_dir(dir)
  end)

  local function open(node, opts)
    local said = later(fake_server.start(naming(node.port, 1)))
    local all = { url = ("redis+sentinel://127.0.0.1:%d/m"):format(said.port) }
    for name, value in pairs(opts or {}) do all[name] = value end
    return later(assert(dlock.open(all))), said
  end

  it("a machine that is gone costs no more than until another one is named",
  function()
    start()
    there:call("REPLICAOF", "NO", "ONE")
    local gone = later(proxy.start(old.url))
    gone:hold("both")
    local store, said = open(gone, { connect_timeout = 60, timeout = 30 })
    local waiter = process.spawn { script = [[
      local store = assert(require("dlock").open { url = arg[1],
        connect_timeout = 60, timeout = 30 })
      print(store:lock("k") and "got")
      store:close(1)
    ]], args = { ("redis+sentinel://127.0.0.1:%d/m"):format(said.port) } }
    assert(gone:wait_for("EXEC")) -- it speaks to who says nothing
    said:rules(naming(new.port, 2))
    assert.equal(0, (waiter:wait(25)))
    assert.equal("got\n", waiter.out)
    assert(store:ping(20))
  end)

  it("who connects goes on although none is named any more, and then again",
  function()
    start()
    local slow = later(proxy.start(old.url))
    slow:hold("down")
    local _, said = open(slow)
    local function rounds() -- the last of them may not be over
      local before = said:count("SENTINEL MASTER")
      assert(said:wait_for("SENTINEL MASTER", before + 3, 30))
    end
    local waiter = process.spawn { script = [[
      local store = assert(require("dlock").open { url = arg[1],
        connect_timeout = 60 })
      local lease, message = store:try_lock("k")
      print(lease and "got" or message)
      store:close(1)
    ]], args = { ("redis+sentinel://127.0.0.1:%d/m"):format(said.port) } }
    assert(slow:wait_for("EXEC"))
    said:rules { ["SENTINEL MASTER"] = "-ERR No such master\r\n",
      ["SENTINEL GET-MASTER-ADDR-BY-NAME"] = "*-1\r\n" }
    rounds()
    said:rules(naming(slow.port, 1))
    rounds()
    slow:release("down")
    assert.equal(0, (waiter:wait(25)))
    assert.equal("got\n", waiter.out)
    assert.equal(1, slow:stats().connections)
  end)

  it("another Sentinel is listened to when the first is gone", function()
    start()
    local one = later(fake_server.start(naming(old.port, 1)))
    local other = later(fake_server.start(naming(old.port, 1)))
    local holder = later(assert(dlock.open(old.url)))
    local lease = assert(holder:lock("k", { ttl = 60 }))
    local waiter = process.spawn { script = [[
      local store = assert(require("dlock").open(arg[1]))
      print(store:lock("k", { timeout = 60 }) and "got")
      store:close(1)
    ]], args = { ("redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/m"):format(
      one.port, other.port) } }
    assert(one:wait_for("SUBSCRIBE"))
    one:stop()
    assert(other:wait_for("SUBSCRIBE"))
    assert.is_true((lease:release()))
    assert.equal(0, (waiter:wait(25)))
    assert.equal("got\n", waiter.out)
  end)

  it("what was said while no Sentinel was listened to is asked for", function()
    start()
    local said = later(fake_server.start(naming(old.port, 1)))
    local holder, admin = later(assert(dlock.open(old.url))), old:connect()
    local held = assert(holder:lock("k", { ttl = 60 }))
    local waiter = process.spawn { script = [[
      local store = assert(require("dlock").open(arg[1]))
      print(store:lock("k", { timeout = 60 }) and "got")
      store:close(1)
    ]], args = { ("redis+sentinel://127.0.0.1:%d/m"):format(said.port) } }
    assert(said:wait_for("SUBSCRIBE"))
    eventually("one who waits", 10, function()
      return #assert(holder:inspect("k")).waiters == 1
        and admin:call("CLIENT", "LIST"):find("cmd=subscribe", 1, true)
    end)
    admin:close()
    repeat -- nobody seeks any more
    until said:wait_for("SENTINEL MASTER", said:count("SENTINEL MASTER") + 1,
      1) == nil
    there:call("REPLICAOF", "NO", "ONE")
    there:call("DEL", "dlock:k")
    said:rules(naming(new.port, 2))
    said:close_connections()
    assert.equal(0, (waiter:wait(25)))
    assert.equal("got\n", waiter.out)
    assert.is_true((held:release()))
  end)

  it("who is cut off with the old primary holds nothing when another one does,"
    .. " with wait_replicas = 1", function()
    start()
    local alone = open(old, { wait_replicas = 1, wait_timeout = 0.2, ttl = 2 })
    local lease = assert(alone:lock("k"))
    there:call("REPLICAOF", "NO", "ONE")
    local store = open(new)
    local other = assert(store:lock("k", { timeout = 10 }))
    assert.is_false(lease:held())
    assert.is_true(other.fence > lease.fence)
    assert.equal("unavailable", (select(3, alone:try_lock("k2"))))
    assert.is_true((other:release()))
  end)

  it("a hand-off that no replica has begins no hold, with wait_replicas = 1",
  function()
    start()
    local store, said = open(old, { wait_replicas = 1, wait_timeout = 0.2 })
    local lease = assert(store:lock("k", { ttl = 60 }))
    local waiter = process.spawn { script = [[
      local store = assert(require("dlock").open { url = arg[1],
        wait_replicas = 1, wait_timeout = 0.2 })
      print "ready"
      io.flush()
      local lease, _, code = store:lock("k", { timeout = 2 })
      print(lease and "got" or "not got", code)
      print(require("dlock").open(arg[1]):inspect("k"))
      store:close(1)
    ]], args = { ("redis+sentinel://127.0.0.1:%d/m"):format(said.port) } }
    waiter:expect("^ready$")
    eventually("one who waits", 10, function()
      return #assert(store:inspect("k")).waiters == 1
    end)
    new:pause()
    assert.is_true((lease:release()))
    assert.equal(0, (waiter:wait(20)))
    assert.matches("^not got", waiter.out)
    assert.matches("\nnil", waiter.out)
  end)

  it("a replica whose clock is ahead ends locks early; that is said, and fences"
    .. " rise", function()
    local ahead = clock.new(dir)
    start(ahead.env)
    ahead:step(5)
    local events = {}
    local store, said = open(old, { on_event = function(event)
      events[event.kind] = event.message
    end })
    local lease = assert(store:lock("k", { ttl = 30 }))
    local fence = lease.fence
    eventually("a copy", 10, function()
      return there:call("EXISTS", "dlock:k") == 1
    end)
    there:call("REPLICAOF", "NO", "ONE")
    said:rules(naming(new.port, 2))
    old:kill()
    eventually("the new primary", 20, function() return store:ping() end)
    eventually("a word of the clock", 10, function()
      assert(store:ping())
      return events.clock
    end)
    assert.is_truthy(events.failover)
    assert.is_true(lease:held())
    assert.is_true((lease:release()))
    local next_one = assert(store:lock("k", { timeout = 5 }))
    assert.is_true(next_one.fence > fence)
    assert.is_true((next_one:release()))
  end)

  it("the rights that the documentation names are enough, with wait", function()
    start()
    local rule = io.open("docs/security.md"):read("*a")
      :match("ACL SETUSER app on >secret (.-)```"):gsub("\\\n", " ")
    for _, node in ipairs { old, new } do
      local admin = node:connect()
      local words = { "ACL", "SETUSER", "app", "on", ">secret" }
      for word in rule:gmatch("%S+") do words[#words + 1] = word end
      words[#words + 1] = "+wait"
      admin:call((table.unpack or unpack)(words))
      admin:close()
    end
    local store, said = open(old, { wait_replicas = 1, username = "app",
      password = "secret" })
    local lease = assert(store:lock("k", { ttl = 2 }))
    eventually("a renewal", 10, function()
      assert(store:ping())
      return store:stats().renewed > 0
    end)
    assert.is_true((lease:release()))
    local without = open(old, { username = "app", password = "secret" })
    lease = assert(without:lock("k"))
    eventually("a copy", 10, function()
      return there:call("EXISTS", "dlock:k") == 1
    end)
    there:call("REPLICAOF", "NO", "ONE")
    said:rules(naming(new.port, 2))
    assert.is_true((lease:release()))
  end)
end)
