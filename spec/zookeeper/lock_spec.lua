-- The ZooKeeper queue on a real server: what it costs, what it leaves, how it
-- shares, and what a path or a password does. Faults: zookeeper/faults_spec.

local common = require "spec.zookeeper.common"
local dlock = require "dlock"
local leaks = require "spec.support.leaks"
local process = require "spec.support.process"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local uv = require "luv"
local zk = require "spec.support.zk"

local URL = common.url
local key, open = common.key, common.open
local nodes, peer = common.nodes, common.peer

describe("a ZooKeeper lock", function()
  local timed = steady(nil, common.clean_up)

  -- In a namespace of its own: in that of the others the server is removing
  -- containers, one every 6 ms, once a minute. On a machine that stands still
  -- just now a pair may take so long that it needs a confirmation.
  it("costs two writes and one read a pair", function()
    local name = "cost" .. uv.os_getpid()
    local mutex = open({ prefix = "/" .. name }):mutex(key())
    assert(mutex:acquire()):release()
    local used
    local deadline = common.now() + 15
    repeat
      local before = zk.stats()
      for _ = 1, 50 do
        assert(assert(mutex:acquire()):release())
      end
      local after = zk.stats()
      used = {}
      for _, what in ipairs { "write", "read" } do
        local counter = ("zk_cnt_%s_%s_per_namespace"):format(name, what)
        used[what] = after[counter] - before[counter]
      end
    until used.write == 100 and used.read == 50 or common.now() > deadline
    assert.are.same({ write = 100, read = 50 }, used)
  end)

  it("names the store when a call without a key cannot reach it", function()
    local store = assert(dlock.open {
      url = "zookeeper://127.0.0.1:" .. server.free_port() })
    local k = key()
    for what, ask in pairs {
      ["the store"] = function() return store:ping(0.1) end,
      ["'" .. k .. "'"] = function()
        return store:lock(k, { timeout = 0.1 })
      end,
    } do
      local got, message, code = ask()
      assert.is_nil(got)
      assert.are.equal("unavailable", code)
      assert.matches("unavailable: " .. what .. ": ", message, 1, true)
    end
    assert(store:close(1))
  end)

  it("keeps its fences rising when its parent is deleted between holds",
    function()
    local store, k = open(), key()
    local guard = assert(open { prefix = "/admin" }:lock(k))
    local last = 0
    for _ = 1, 3 do
      local lease = assert(store:lock(k))
      assert.is_true(lease.fence > last)
      last = lease.fence
      assert(lease:release())
      assert(common.guard(guard, "DELETE", "/dlock/" .. k))
    end
  end)

  it("wakes one of many waiters at each release", function()
    local k, n = key(), 8
    local holder = assert(open():lock(k))
    local waiters = {}
    for i = 1, n do
      waiters[i] = peer([[
        local lease = assert(store:lock(key, { timeout = 60 }))
        print("got", lease.fence)
        io.read()
        assert(lease:release())
        print("done")
        io.read()
      ]], k)
      common.queued(k, i + 1)
    end
    local function reads()
      return zk.stats()["zk_cnt_dlock_read_per_namespace"] or 0
    end
    local before = reads()
    holder:release()
    local last = holder.fence
    for i = 1, n do
      local _, fence = waiters[i]:expect("^got\t(%d+)")
      assert.is_true(tonumber(fence) > last, "out of order at " .. i)
      last = tonumber(fence)
      waiters[i]:write("\n")
      waiters[i]:expect("^done")
    end
    -- One list for each hand-off; a held node may be read once more, and the
    -- last waiter may have still to list and to watch.
    assert.is_true(reads() - before <= 2 * n + 2, reads() - before)
  end)

  timed("leaves nothing behind when a wait ends", function()
    local store, k = open(), key()
    local lease = assert(store:lock(k))
    local other = open()
    assert(other:ping(10))
    local _, _, code = other:lock(k, { timeout = 0.6 })
    assert.are.equal("timeout", code)
    assert.are.equal("busy", select(3, other:try_lock(k)))
    assert.are.equal(1, #nodes(k))
    lease:release()
    assert.are.equal(0, #nodes(k))
  end)

  timed("says who holds it", function()
    local k = key()
    local lease = assert(open { name = "the holder" }:lock(k))
    local other = open()
    local _, message = other:try_lock(k)
    assert.is_truthy(message:find("the holder", 1, true), message)
    _, message = other:lock(k, { timeout = 0.6 })
    assert.is_truthy(message:find("the holder", 1, true), message)
    lease:release()
  end)

  -- That program has the holder's connection too: the library's descriptors
  -- are not closed on exec.
  it("frees a killed holder's lock in time, whatever program it started and"
    .. " left", function()
    local k = key()
    local holder = peer([[
      assert(store:lock(key))
      print("held", io.popen("echo $$; exec sleep 30"):read("*l"))
      io.read()
    ]], k)
    local _, left = holder:expect("^held\t(%d+)")
    holder:kill()
    local start = common.now()
    local lease = assert(open():lock(k, { timeout = 12 }))
    local took = common.now() - start
    assert.is_true(took > 1 and took < 8, took)
    assert.equal(0, uv.kill(tonumber(left), "sigkill"))
    lease:release()
  end)

  it("makes a path that is missing, all of it", function()
    local chroot = "/" .. key()
    local store = open { url = URL .. chroot .. "/deeper" }
    local lease = assert(store:lock("a/b"))
    assert.are.equal(1, #nodes(chroot .. "/deeper/dlock/a%2Fb/"))
    assert(lease:release())
  end)

  it("is invalid where no server would have a node", function()
    for _, opts in ipairs {
      { prefix = "/locks of caf\233" }, { prefix = "/\240\159\152\128" },
      { url = URL .. "/\240\159\152\128" } } do
      opts.url = opts.url or URL
      local _, _, code = dlock.open(opts)
      assert.are.equal("invalid", code)
    end
    local k = key()
    local lease = assert(open { prefix = "/caf\195\169" }:try_lock(k))
    lease:release()
  end)

  timed("says what a server refuses, in its own words", function()
    local lease = assert(open():lock(key()))
    local node = nodes(lease.key .. "/")[1]
    local store = open { url = URL .. node }
    local _, message, code = store:lock("k", { timeout = 10 })
    assert.are.equal("unavailable", code)
    assert.matches("refuses.*ephemeral", message)
    lease:release()
  end)

  timed("names a quota that a server enforces, and its number", function()
    local s = zk.start { config = { enforceQuota = "true" } }
    local limits = open { url = s.url, prefix = "/limits" }
    local lease = assert(limits:lock("k"))
    local at = "/zookeeper/quota/dlock"
    assert(common.guard(lease, "CREATE", at, ""))
    assert(common.guard(lease, "CREATE", at .. "/zookeeper_stats",
      "count=0,bytes=0"))
    assert(common.guard(lease, "CREATE", at .. "/zookeeper_limits",
      "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1"))
    local _, message, code = open { url = s.url }:lock("k", { timeout = 10 })
    assert.are.equal("unavailable", code)
    assert.matches("refuses it: a quota is exceeded %(ZQUOTAEXCEEDED %-125%)",
      message)
    common.close_stores()
    s:stop()
  end)

  timed("says that a server closes new connections at once", function()
    local s = zk.start { config = { maxClientCnxns = 1 } }
    local first = uv.new_tcp()
    first:connect("127.0.0.1", s.port, function() end)
    common.eventually("no other one is let in", function()
      return (zk.four("ruok", s.url) or "") == ""
    end)
    local store = open { url = s.url }
    local _, message, code = store:lock("k", { timeout = 5 })
    assert.are.equal("unavailable", code)
    assert.matches("closes each new connection at once", message)
    assert.matches("maxClientCnxns", message)
    assert.is_nil(message:find("quorum", 1, true))
    first:close()
    uv.run("nowait")
    assert(store:lock("k", { timeout = 20 })):release()
    common.close_stores()
    s:stop()
  end)

  it("keeps chroots and prefixes apart", function()
    local k = key()
    local one = assert(open():lock(k))
    local two = assert(open { prefix = "/other" }:try_lock(k))
    two:release()
    one:release()
  end)

  timed("is denied on a path of somebody else", function()
    local path = "/" .. key()
    local owner = open { url = URL .. path, username = "ann",
      password = "secret-of-ann" }
    local lease = assert(owner:lock("k"))
    for _, opts in ipairs {
      { url = URL .. path },
      { url = URL .. path, username = "ann", password = "wrong-secret" },
    } do
      local start = common.now()
      local _, message, code = open(opts):lock("other", { timeout = 3 })
      assert.are.equal("denied", code)
      assert.is_truthy(message:find("password", 1, true), message)
      assert.is_nil(message:find("secret", 1, true), message)
      assert.is_true(common.now() - start < 2)
      assert.are.equal("denied", select(3, open(opts):lock("k")))
    end
    assert(lease:release())
    assert(owner:lock("k")):release()
  end)

  it("refuses what it cannot use, at open", function()
    local function code(url, opts)
      local all = { url = url }
      for name, value in pairs(opts or {}) do all[name] = value end
      local store, message, c = dlock.open(all)
      assert.is_nil(store, url)
      return c, message
    end
    assert.are.equal("invalid", code(URL .. "/a/../b"))
    assert.are.equal("invalid", code(URL, { prefix = "dlock" }))
    assert.are.equal("invalid", code(URL, { username = "ann" }))
    assert.are.equal("unsupported",
      code((URL:gsub("^zookeeper", "zookeepers"))))
  end)

  it("survives keys of every kind", function()
    local store = open()
    for _, k in ipairs { ".", "..", "/", "a/b", "\0", "%", "\n", "{}",
      ("x"):rep(512), ("\255"):rep(512), "zookeeper", "é" } do
      assert(assert(store:lock(k)):release())
    end
  end)

  it("ends its threads and descriptors with the store, leases held or not",
    function()
      local k = key()
      assert(dlock.open(URL)):close()
      local before = leaks.snapshot()
      for _ = 1, 5 do
        local store = assert(dlock.open(URL))
        local lease = assert(store:lock(k))
        assert(store:close())
        assert.is_false(lease:held())
        assert.are.equal(0, #nodes(k))
      end
      assert.same({}, leaks.since(before, 5))
    end)

  it("says nothing on standard error", function()
    local status, out, err = process.run {
      script = [[
        local dlock = require "dlock"
        local store = dlock.open { url = arg[1], timeout = 1 }
        print((select(3, store:lock("k"))))
        store:close()
      ]],
      args = { "zookeeper://127.0.0.1:9" },
    }
    assert.are.equal(0, status)
    assert.are.equal("unavailable\n", out)
    assert.are.equal("", err)
  end)
end)
