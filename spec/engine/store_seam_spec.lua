-- Where engine and store meet: the options that are the store's own, and what
-- a store may ask of the engine, on the store in memory.
local core = require "dlock.core"
local dlock = require "dlock"
local engine = require "spec.support.engine"
local memory = require("spec.support.memory").load()
local steady = require "spec.support.steady"

local finish = engine.finish

local function open(options)
  return engine.new(memory, { shown = "memory:", options = options })
end

local function acquire(e, key, o)
  return finish(assert(engine.acquire(e, key, o)))
end

-- So that what the engine does with readers and permits can be tried here.
describe("the store in memory", function()
  local e
  before_each(function() e = assert(open()) end)
  after_each(function() finish(e:close(1)) end)

  local function try(key, units, cap)
    local lease, _, code = acquire(e, key,
      { units = units, cap = cap, wait = false })
    return lease or code
  end

  local function wait(key, units, cap)
    return assert(engine.acquire(e, key, { units = units, cap = cap,
      timeout = 10 }))
  end

  it("lets readers in together, and a writer alone, first come first",
  function()
    local a, b = try("k", 1, 0), try("k", 1, 0)
    local writer, reader = wait("k", 0, 0), wait("k", 1, 0)
    assert.equal("busy", try("k", 1, 0))
    assert.is_true(finish(core.release(a)))
    assert.is_false(writer:poll())
    assert.is_true(finish(core.release(b)))
    local held = assert(finish(writer))
    assert.is_false(reader:poll())
    assert.is_true(finish(core.release(held)))
    assert.is_true(core.held(assert(finish(reader))))
  end)

  it("lets permits in up to their limit", function()
    local a, b = try("k", 2, 3), try("k", 1, 3)
    assert.equal("busy", try("k", 1, 3))
    local two = wait("k", 2, 3)
    assert.is_true(finish(core.release(b)))
    assert.is_false(two:poll())
    assert.is_true(finish(core.release(a)))
    assert.is_true(core.held(assert(finish(two))))
  end)

  it("lets those in that stood behind a writer that gave up", function()
    local a = try("k", 1, 0)
    local writer, reader = wait("k", 0, 0), wait("k", 1, 0)
    writer:cancel()
    assert.equal("cancelled", (select(3, finish(writer))))
    assert.is_true(core.held(assert(finish(reader))))
    assert.is_true(core.held(a))
  end)
end)

describe("a store's own options", function()
  it("come to it with their names and values, tables entry by entry",
  function()
    local e = assert(open { first_fence = 7000,
      names = { a = "alice", ["b:1"] = "bob" } })
    local held = {}
    for i, key in ipairs { "a", "b:1", "c" } do
      held[i] = assert(acquire(e, key))
      assert.equal(6999 + i, held[i].fence)
    end
    for key, name in pairs { a = "alice", ["b:1"] = "bob", c = "memory/1" } do
      local lease, message = acquire(e, key, { timeout = 0.01 })
      assert.is_nil(lease)
      assert.is_truthy(message:find(name, 1, true), message)
    end
    for i = 1, 3 do assert.is_true(core.held(held[i])) end
    finish(e:close(1))
  end)

  it("live as long as the engine does", function()
    local e = assert(open { names = { ["a" .. 1] = ("x"):rep(20) .. "y" } })
    collectgarbage()
    collectgarbage()
    local lease = assert(acquire(e, "a1"))
    local _, message = acquire(e, "a1", { timeout = 0.01 })
    assert.is_truthy(message:find("xy", 1, true), message)
    assert.is_true(core.held(lease))
    finish(e:close(1))
  end)

  it("are invalid, by their name, where the store has no use for them",
  function()
    local e, message, code = open { first_fence = 1, colour = "red" }
    assert.is_nil(e)
    assert.equal("invalid", code)
    assert.equal("invalid: memory:: the option 'colour' has no meaning for"
      .. " this store; leave it out", message)
    e, message = open { colours = { a = 1, b = 2 } }
    assert.is_nil(e)
    assert.is_truthy(message:find("'colours'", 1, true), message)
  end)

  it("of ZooKeeper that ask for protection are invalid on other stores",
  function()
    for _, opts in ipairs { { acl = "creator" }, { acl = "open" },
        { sasl = true }, { sasl = false } } do
      for _, url in ipairs { "redis://127.0.0.1:1", "file:///tmp/x" } do
        opts.url = url
        local store, message, code = dlock.open(opts)
        assert.is_nil(store)
        assert.equal("invalid", code)
        assert.is_truthy(message:find("' has no meaning for this store", 1,
          true), message)
      end
    end
  end)

  it("of one store are no obstacle to another", function()
    for _, url in ipairs { "redis://127.0.0.1:1", "zookeeper://127.0.0.1:1",
        "file:///tmp/x" } do
      assert(dlock.open { url = url, session_timeout = 5, fence_memory = 60,
        wait_timeout = 0.1 })
    end
  end)

  it("that ask for nothing are no obstacle, and a guarantee is", function()
    for _, url in ipairs { "redis://127.0.0.1:1", "zookeeper://127.0.0.1:1",
        "file:///tmp/x" } do
      assert(dlock.open { url = url, wait_replicas = 0, wait_timeout = 0.5,
        fence_memory = 600, session_timeout = 10 })
      local store, message, code = dlock.open { url = url, wait_replicas = 1 }
      if url:find("^redis") then
        assert.is_truthy(store)
      else
        assert.is_nil(store)
        assert.equal("invalid", code)
        assert.is_truthy(message:find("'wait_replicas' has no meaning", 1,
          true), message)
      end
    end
  end)
end)

describe("a store that has its leases renewed at once", function()
  local e
  local timed = steady(function() e = assert(open()) end, function()
    finish(e:close(1))
    e = nil
  end)

  -- Asks the store to, and counts how many renewals were answered since.
  local function hurried()
    local before = e:stats().renewed
    assert(finish(e:revoke("moved:x")))
    local limit = core.now() + 5
    repeat
      finish(e:ping(1))
    until e:stats().renewed > before or core.now() > limit
    finish(e:ping(1)) -- another thread may have been in their midst
    return e:stats().renewed - before
  end

  timed("is told of all that are to be renewed, long before they are due",
  function()
    local one = acquire(e, "a", { ttl = 30 })
    local two = acquire(e, "b", { ttl = 60 })
    local ends = acquire(e, "c", { ttl = 30, renew = false })
    local left = core.remaining(ends)
    assert.equal(2, hurried())
    assert.is_true(core.held(one) and core.held(two) and core.held(ends))
    assert.is_true(core.remaining(ends) <= left)
    assert.equal(2, hurried())
  end)

  timed("may say of each that it is lost", function()
    local gone, stays = acquire(e, "gone:a", { ttl = 30 }), acquire(e, "b",
      { ttl = 30 })
    assert.equal(1, hurried())
    assert.is_false(core.held(gone))
    assert.is_true(core.held(stays))
  end)

  timed("does not have what cannot be renewed asked again and again",
  function()
    local lease = acquire(e, "a", { ttl = 30, max_hold = 20 })
    assert(finish(e:revoke("moved:x")))
    local before = finish(e:ping(1))
    for i = 1, 20 do assert.equal(before + i, finish(e:ping(1))) end
    assert.is_true(core.held(lease))
  end)
end)
