-- The ZooKeeper queue on a real server: what it costs, what it leaves, how it
-- shares, and what a path or a password does. Faults: zookeeper/faults_spec.

local common = require "spec.zookeeper.common"
local dlock = require "dlock"
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
    -- A server counts nodes late: one more than it allows is there before.
    assert(open { url = s.url }:lock("before")):release()
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
end)
