-- What the local books of a store hold, beyond what the contract can see: they
-- must not grow with what is over.

local core = require "dlock.core"
local dlock = require "dlock"
local server = require "spec.support.server"

local function collect()
  collectgarbage()
  collectgarbage()
end

local function count(t)
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  return n
end

describe("the books of a store", function()
  local dir, store, client

  before_each(function()
    dir = server.new_dir()
    store = assert(dlock.open("file://" .. dir .. "/locks"))
    local lease = assert(store:lock("k"))
    client = core.client(lease)
    lease:release()
  end)

  after_each(function()
    store:close()
    server.remove_dir(dir)
  end)

  it("of reentrancy are empty after the last release", function()
    local leases = {}
    for i = 1, 30 do
      local opts = { reentrant = true, owner = "o" .. i % 3 }
      leases[i] = assert(store:lock("k" .. i % 9, opts))
    end
    assert.are.equal(9, count(client.holds.keys))
    for _, lease in ipairs(leases) do
      assert.is_true(lease:release())
    end
    assert.are.equal(0, count(client.holds.keys))
    assert.are.equal(0, client.holds.count)
  end)

  it("of reentrancy do not grow with leases that are collected", function()
    for i = 1, 400 do
      assert(store:lock("k" .. i, { reentrant = true, owner = "o" .. i }))
      if i % 20 == 0 then collect() end
    end
    assert.is_true(count(client.holds.keys) < 200)
    collect()
    local lease = assert(store:lock("last", { reentrant = true }))
    assert.is_true(client.holds.count < 200)
    lease:release()
  end)

  it("of reentrancy do not keep a coroutine alive", function()
    local seen = setmetatable({}, { __mode = "k" })
    local co = coroutine.create(function()
      local lease = assert(store:lock("k", { reentrant = true, ttl = 0.5 }))
      coroutine.yield()
      return lease
    end)
    seen[co] = true
    assert(coroutine.resume(co))
    co = nil -- luacheck: ignore
    collect()
    collect()
    assert.is_nil(next(seen))
    assert(store:lock("k", { timeout = 5 })):release()
  end)

  it("of callbacks do not keep a lease alive", function()
    local ran = false
    for i = 1, 20 do
      local lease = assert(store:lock("k" .. i))
      lease:on_lost(function() ran = lease end)
    end
    collect()
    collect()
    assert.are.equal(0, count(client.watched.leases))
    assert.is_false(ran)
  end)

  it("of waits do not keep a ticket", function()
    local canceller = dlock.canceller()
    local lease = assert(store:lock("k", { cancel = canceller }))
    for _ = 1, 5 do
      assert.are.equal("timeout", select(3,
        store:lock("k", { cancel = canceller, timeout = 0.01 })))
    end
    assert.are.equal(0, count(require("dlock.canceller").state(canceller)
      .waits))
    lease:release()
  end)

  it("of callbacks neither keep a store alive nor meet one that is collected",
    function()
      local seen = setmetatable({}, { __mode = "k" })
      local function use(name, closes)
        local other = assert(dlock.open("file://" .. dir .. "/others"))
        local lease = assert(other:lock(name))
        lease:on_lost(function() return other, lease end)
        seen[core.client(lease)] = true
        if closes then other:close() end
      end
      for i = 1, 4 do use("k" .. i, i % 2 == 0) end
      for _ = 1, 4 do
        collectgarbage()
        assert(store:ping())
      end
      assert.are.equal(0, count(seen))
    end)
end)
