-- redis+cluster:// while slots move from node to node.
local cluster = require "spec.support.cluster"
local core = require "dlock.core"
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local redis = require "spec.support.redis"

local WORKERS, KEYS = 8, 64

describe("in a cluster whose slots move,", function()
  local set, opened

  setup(function() set = cluster.start { replicas = 0 } end)
  teardown(function() set:stop() end)

  before_each(function() opened = {} end)
  after_each(function()
    process.close_all()
    for i = #opened, 1, -1 do opened[i]:close(1) end
  end)

  local function open(opts)
    local all = { url = set.url }
    for name, value in pairs(opts or {}) do all[name] = value end
    local store = assert(dlock.open(all))
    opened[#opened + 1] = store
    return store
  end

  it("a lease goes on, and those who wait are served in their order", function()
    local store, slot = open(), set:slot_of "held"
    local lease = assert(store:lock("held", { ttl = 3 }))
    local waiters = {}
    for i = 1, 4 do
      waiters[i] = process.spawn { script = [[
        local store = require("dlock").open(arg[1])
        local lease = assert(store:lock("held", { timeout = 30 }))
        print(("%.0f"):format(lease.fence))
        lease:release()
        store:close(1)
      ]], args = { set.url } }
      eventually("a place in the queue", 60, function()
        local found = store:inspect("held")
        return found and #found.waiters == i
      end)
    end
    for _ = 1, 3 do
      set:move(slot, set:other(slot))
      loop.wait(0.5, function() return false end)
    end
    assert.is_true(lease:held())
    assert.is_true(lease:release())
    local last = lease.fence
    for _, one in ipairs(waiters) do
      assert.equal(0, (one:wait(60)), one.err)
      assert.is_true(tonumber(one.out) > last)
      last = tonumber(one.out)
    end
    assert.equal(0, #store:list "held")
  end)

  -- What has moved when a move stops in the middle.
  local PARTS = {
    none = function() return false end,
    ["the lock"] = function(key) return not key:find("^~dlock:") end,
    ["all but the lock"] = function(key) return key:find("^~dlock:") end,
    all = function() return true end,
  }
  for what, which in pairs(PARTS) do
    it("a slot of which " .. what .. " moved is held, extended and released",
    function()
      local key = "open-" .. what:gsub(" ", "-")
      local store, slot = open { io_timeout = 1 }, set:slot_of(key)
      local lease = assert(store:lock(key, { ttl = 3 }))
      local from, to = set:begin(slot, set:other(slot))
      set.migrate(slot, from, to, which)
      loop.wait(2.5, function() return false end) -- two renewals
      assert.is_true(lease:held())
      assert.is_true(lease:extend(2) > 1)
      assert.is_true(lease:release())
      -- With two names, of which one node has neither.
      local got, message, code = store:try_lock(key)
      assert.is_nil(got)
      assert.equal("unavailable", code, message)
      local waiter = process.spawn { script = [[
        local store = require("dlock").open(arg[1])
        print(assert(store:lock(arg[2], { timeout = 30 })):release())
        store:close(1)
      ]], args = { set.url, key } }
      loop.wait(0.3, function() return false end)
      set.migrate(slot, from, to)
      set:finish(slot, to)
      assert.equal(0, (waiter:wait(60)), waiter.err)
      assert.equal("true\n", waiter.out)
    end)
  end

  it("a guarded write on another node's key says what to do", function()
    local store, slot = open(), set:slot_of "guarded"
    local lease = assert(store:lock("guarded"))
    local mine = "dlock:" .. store:tag("guarded") .. "state"
    assert.equal("OK", lease:guard("SET", mine, "x"))
    local i = 1
    while set:owner(set.nodes[1]:call("CLUSTER", "KEYSLOT", "e" .. i))
        == set:owner(slot) do
      i = i + 1
    end
    local ok, message, code = lease:guard("SET", "e" .. i, "x")
    assert.is_nil(ok)
    assert.equal("invalid", code, message)
    assert.truthy(message:find("store:tag", 1, true), message)
    assert.equal(1, lease:guard("DEL", mine))
    assert.is_true(lease:release())
  end)

  it("a map that is wrong costs one redirect", function()
    local store, slot = open(), set:slot_of "wrong"
    assert(store:lock("other")):release()
    set:move(slot, set:other(slot))
    for _, node in ipairs(set.nodes) do node:call("CONFIG", "RESETSTAT") end
    local lease, moved = assert(store:lock("wrong")), 0
    for _, node in ipairs(set.nodes) do
      moved = moved + (node:call("INFO", "errorstats")
        :match("errorstat_MOVED:count=(%d+)") or 0)
    end
    assert.equal(1, moved)
    assert.is_true(lease:release())
  end)

  it("the map is asked for once a second, however many move", function()
    local stores, asked, from = {}, 0, core.now()
    local call = set.nodes[1].call
    local function counted(node, first, second, ...)
      asked = asked - (second == "SLOTS" and 1 or 0) -- the fixture's
      return call(node, first, second, ...)
    end
    for _, node in ipairs(set.nodes) do
      node:call("CONFIG", "RESETSTAT")
      node.call = counted
    end
    for i = 1, 10 do stores[i] = open() end
    for i = 1, 40 do
      local slot = set:slot_of("many" .. i)
      set:move(slot, set:other(slot))
      for _, store in ipairs(stores) do
        assert(store:lock("many" .. i)):release()
      end
    end
    for _, node in ipairs(set.nodes) do
      node.call = call
      local client = assert(node:connect())
      asked = asked + (client:command_counts()["cluster|slots"] or 0)
      client:close()
    end
    local most = #stores * (core.now() - from + 2)
    assert.is_true(asked > 0 and asked <= most, asked .. " of " .. most)
  end)

  it("a list shows the keys of a slot that is left open", function()
    local store, slot = open(), set:slot_of "{open}1"
    local leases = {}
    for i = 1, 6 do leases[i] = assert(store:lock("{open}" .. i)) end
    local from, to = set:begin(slot, set:other(slot))
    set.migrate(slot, from, to, function(key)
      return key:find "^dlock:.*[246]$"
    end)
    local found = {}
    for _, key in ipairs(assert(store:list("{open}"))) do found[key] = true end
    for i = 1, 6 do assert.is_true(found["{open}" .. i], i) end
    set.migrate(slot, from, to)
    set:finish(slot, to)
    for _, lease in ipairs(leases) do assert.is_true(lease:release()) end
  end)

  it("a list shows all keys, of whatever node", function()
    local store = open()
    for i = 1, 30 do assert(store:lock("listed-" .. i)) end
    assert.equal(30, #store:list "listed-")
    local found, cursor, pages = {}, nil, 0
    repeat
      local page
      page, cursor = store:list("listed-", { limit = 4, cursor = cursor })
      for _, key in ipairs(page) do found[key] = true end
      pages = pages + 1
    until not cursor
    local count = 0
    for _ in pairs(found) do count = count + 1 end
    assert.equal(30, count)
    assert.is_true(pages >= 3)
    for _, bad in ipairs { "k0", "k0@", "k0@0123456", "k0@012345678", "x" } do
      local _, _, code = store:list("listed-", { cursor = bad })
      assert.equal("invalid", code, bad)
    end
  end)

  -- Each holder notes itself on a server of its own kind: two at a time show.
  it("eight processes never hold one key at a time, and lose none", function()
    local witness = redis.start {}
    local workers = {}
    for i = 1, WORKERS do
      workers[i] = process.spawn { script = [[
        local dlock, redis = require "dlock", require "spec.support.redis"
        local store = assert(dlock.open { url = arg[1], ttl = 5, timeout = 30 })
        local witness = assert(redis.connect(arg[2]))
        math.randomseed(tonumber(arg[3]))
        print "ready"
        io.flush()
        local count = 0
        repeat
          local key = "k" .. math.random(tonumber(arg[4]))
          local lease = assert(store:lock(key))
          assert(witness:call("SET", key, "in", "NX"), "two hold " .. key)
          local before = tonumber(witness:call("GET", "f" .. key) or 0)
          assert(lease.fence > before, "the fence fell")
          witness:call("SET", "f" .. key, ("%.0f"):format(lease.fence))
          witness:call("DEL", key)
          assert(lease:release())
          count = count + 1
        until witness:call("GET", "stop")
        print(count)
        store:close(1)
      ]], args = { set.url, witness.url, i, KEYS } }
      workers[i]:expect("^ready$")
    end
    local slots = {}
    for i = 1, KEYS do slots[i] = set:slot_of("k" .. i) end
    for _ = 1, loop.patience > 1 and 1 or 2 do
      for _, slot in ipairs(slots) do set:move(slot, set:other(slot)) end
    end
    local teller = assert(witness:connect())
    teller:call("SET", "stop", "1")
    for _, one in ipairs(workers) do
      assert.equal(0, (one:wait(60)), one.err)
      assert.is_true(tonumber(one.out:match("(%d+)%s*$")) > 0)
    end
    teller:close()
    witness:stop()
    for _, node in ipairs(set.nodes) do
      local left = node:call("KEYS", "*dlock:k*")
      for _, key in ipairs(left) do
        assert.truthy(key:find("^~dlock:{%d+}:f:"), key)
      end
    end
  end)
end)
