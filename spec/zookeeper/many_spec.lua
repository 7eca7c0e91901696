-- Thousands of one process who wait for one lock on ZooKeeper. What each of
-- them costs must not grow with their number: else the answers keep the
-- session's confirming writes waiting until its locks count as lost. Counted in
-- bytes and requests, so that a slow machine changes nothing.

local common = require "spec.zookeeper.common"
local core = require "dlock.core"
local proxy = require "spec.support.proxy"
local zk = require "spec.support.zk"

local EXCLUSIVE, SHARED = { 0, 0 }, { 1, 0 }
local NAME = 120 -- bytes of a node's name in a list, at most

describe("on ZooKeeper, of many who wait in one process", function()
  local server, gate

  before_each(function()
    server = zk.start()
    gate = proxy.start(server.url)
  end)

  after_each(function()
    common.clean_up()
    server:stop()
  end)

  local function requests()
    return zk.stats(server.url).zk_packets_received
  end

  -- Runs the engine's loop until all of these are done.
  local function finish(e, tickets)
    local leases = {}
    for i, ticket in ipairs(tickets) do
      leases[i] = assert(e.finish(ticket))
    end
    return leases
  end

  local function release(e, leases)
    local tickets = {}
    for i, lease in ipairs(leases) do tickets[i] = core.release(lease) end
    for _, ticket in ipairs(tickets) do assert(e.finish(ticket)) end
  end

  -- Behind a writer of another process: `count` wait (look: is called then with
  -- the key), then all are let in, at once or in turn.
  local function crowd(count, want, timeout, look)
    local k = common.key()
    local writer = common.peer([[
      local lease = assert(store:lock(key))
      print("held")
      io.read()
      assert(lease:release())
      print("released")
    ]], k, { url = server.url, session_timeout = 30 })
    writer:expect("held")
    local store = common.open { url = gate.url, session_timeout = 10 }
    local e = common.engine(store)
    local before, asked = gate:stats().down, requests()
    local tickets = {}
    for i = 1, count do tickets[i] = e.start(k, want, timeout) end
    local deadline = common.now() + timeout
    repeat
      store:mutex("nobody"):locked() -- the engine works while somebody waits
      local there = zk.stats(server.url).zk_ephemerals_count > count
      assert.is_true(common.now() < deadline, "they never came")
    until there
    if look then look(k) end
    writer:write("\n")
    writer:expect("released")
    return { engine = e, tickets = tickets, key = k,
      bytes = function() return gate:stats().down - before end,
      requests = function() return requests() - asked end }
  end

  it("4,000 readers are let in together, and none is lost", function()
    local count = 4000
    local all = crowd(count, SHARED, 120)
    local leases = finish(all.engine, all.tickets)
    local held = 0
    for _, lease in ipairs(leases) do
      held = held + (lease:held() and 1 or 0)
    end
    assert.are.equal(count, held)
    -- Those of the creates, and a dozen lists.
    local bytes, sent = all.bytes(), all.requests()
    assert.is_true(bytes < count * 300 + 12 * count * NAME, bytes)
    assert.is_true(sent < count * 1.5, sent)
    release(all.engine, leases)
  end)

  it("1,000 writers are let in one after the other", function()
    local count = 1000
    local all = crowd(count, EXCLUSIVE, 120, function(k)
      local found = assert(common.open { url = server.url }:inspect(k))
      assert.are.equal(1, #found.holders)
      assert.are.equal(count, #found.waiters)
    end)
    local fence = 0
    for _, ticket in ipairs(all.tickets) do
      local lease = assert(all.engine.finish(ticket))
      assert.is_true(lease:held())
      assert.is_true(lease.fence > fence)
      fence = lease.fence
      assert(lease:release())
    end
    assert.is_true(all.requests() < count * 6, all.requests())
  end)

  it("1,000 with a permit of 50 each are let in in turn", function()
    local count = 1000
    local all = crowd(count, { 1, 50 }, 120)
    for i = 1, count, 50 do
      local some = {}
      for at = i, i + 49 do some[#some + 1] = all.tickets[at] end
      release(all.engine, finish(all.engine, some))
    end
    assert.is_true(all.bytes() < count * 3000, all.bytes())
    assert.is_true(all.requests() < count * 3, all.requests())
  end)
end)
