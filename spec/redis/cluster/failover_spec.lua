-- redis+cluster:// when a primary is lost.
local cluster = require "spec.support.cluster"
local core = require "dlock.core"
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local loop = require "spec.support.loop"

describe("in a cluster,", function()
  local set, opened

  before_each(function() set, opened = cluster.start(), {} end)
  after_each(function()
    for i = #opened, 1, -1 do opened[i]:close(1) end
    set:stop()
  end)

  local function open(opts)
    local all = { url = set.url }
    for name, value in pairs(opts or {}) do all[name] = value end
    local store = assert(dlock.open(all))
    opened[#opened + 1] = store
    return store
  end

  -- Keys of the first primary, and of others.
  local function keys()
    local here, there = {}, {}
    for i = 1, 100 do
      local slot = set:slot_of("k" .. i)
      local list = slot < 5461 and here or there
      list[#list + 1] = "k" .. i
    end
    return here, there
  end

  it("a primary that is killed is waited for, and others serve on", function()
    local kinds = {}
    local store = open { timeout = 20, on_event = function(event)
      kinds[event.kind] = event.message
    end }
    local here, there = keys()
    local held = assert(store:lock(here[1], { ttl = 10 }))
    local other = assert(store:lock(there[1], { ttl = 10 }))
    local before = assert(store:lock(here[2]))
    assert.is_true(before:release())
    loop.wait(0.5, function() return false end) -- the replica has it
    set.nodes[1]:kill()
    local from, longest = core.now(), 0
    repeat
      local at = core.now()
      assert(store:lock(there[2])):release()
      longest = math.max(longest, core.now() - at)
    until core.now() - from > 0.4
    assert.is_true(longest < 0.4, longest)
    local after = assert(store:lock(here[2]))
    assert.is_true(after.fence > before.fence)
    assert.is_true(core.now() - from < 15 * loop.patience)
    assert.is_true(after:release())
    assert.is_true(held:held())
    assert.is_true(held:extend() > 0)
    assert.is_true(held:release())
    assert.is_true(other:release())
    assert.truthy(kinds.failover)
    assert.truthy(kinds.disconnect)
  end)

  it("one that is made a replica sends us on, and fences rise", function()
    local store, here = open { timeout = 20 }, keys()
    local lease = assert(store:lock(here[1]))
    local last = assert(store:lock(here[2]))
    assert.is_true(last:release())
    for _ = 1, 2 do
      set:failover(set:slot_of(here[1]))
      local next_one = assert(store:lock(here[2]))
      assert.is_true(next_one.fence > last.fence)
      assert.is_true(next_one:release())
      last = next_one
      set:settled()
    end
    assert.is_true(lease:extend() > 0)
    assert.is_true(lease:release())
  end)

  -- A cluster keeps the connections of a node that turns replica and back.
  it("one that was silent may lack the last fences, and they rise", function()
    local store, here = open(), keys()
    local last = 0
    for _ = 1, 3 do
      local lease = assert(store:lock(here[3]))
      last = lease.fence
      assert.is_true(lease:release())
    end
    local owner = set:owner(set:slot_of(here[3]))
    local counter = owner:call("KEYS", "~dlock:{*}:f:dlock:" .. here[3])[1]
    owner:call("DECRBY", counter, 100000)
    loop.wait(0.5, function() return false end)
    local lease = assert(store:lock(here[3]))
    assert.is_true(lease.fence > last)
    assert.is_true(lease:release())
  end)

  it("one that hung while its replica took over serves nothing", function()
    local opts = { wait_replicas = "all", ttl = 10, io_timeout = 1 }
    local store, rival, here = open(opts), open(opts), keys()
    local lease = assert(store:lock(here[1]))
    local function refused()
      local ok, _, code = rival:try_lock(here[1])
      assert.is_nil(ok)
      return code == "busy"
    end
    assert.is_true(refused())
    set.nodes[1]:pause()
    set.nodes[4]:call("CLUSTER", "FAILOVER", "TAKEOVER")
    eventually("an answer of the new primary", 60, refused)
    assert.is_true(lease:held())
    set.nodes[1]:resume()
    eventually("MOVED", 60, function()
      local _, message = set.nodes[1].client:pcall("GET", "dlock:" .. here[1])
      return message and message:find "^MOVED"
    end)
    assert.is_true(lease:extend() > 0)
    assert.is_true(refused())
    assert.is_true(lease:release())
    local after = assert(rival:lock(here[1], { timeout = 20 }))
    assert.is_true(after.fence > lease.fence)
    assert.is_true(after:release())
  end)

  it("a replica behind redis:// is called a node of a cluster", function()
    local store = open { url = set.nodes[4].url }
    local _, message, code = store:ping()
    assert.equal("unsupported", code, message)
    assert.truthy(message:find("redis+cluster://", 1, true), message)
  end)

  it("replicas alone name the primaries, with wait_replicas too", function()
    local said = {}
    for _, wait in ipairs { 1, "all" } do
      local address = set.nodes[4].url:gsub("^redis", "redis+cluster")
      local store, here = open { url = address, wait_replicas = wait,
        timeout = 5, on_event = function(event)
          if event.kind == "connect" then said[#said + 1] = event.message end
        end }, keys()
      assert(store:ping())
      assert.is_true(assert(store:lock(here[1])):release())
    end
    local primary = set.nodes[1].url:gsub("^redis://", "")
    assert.truthy(table.concat(said, "\n"):find(primary, 1, true),
      table.concat(said, "\n"))
  end)

  it("a grant counts when the replica of its primary has it", function()
    local store, here, there = open { wait_replicas = "all", timeout = 5 },
      keys()
    assert.is_true(assert(store:lock(here[1])):release())
    set.nodes[4]:pause()
    local ok, message, code = store:try_lock(here[2])
    assert.is_nil(ok)
    assert.equal("unavailable", code, message)
    assert.is_true(assert(store:lock(there[1])):release())
    set.nodes[4]:resume()
  end)
end)
