-- What a loss leaves behind, over a store in memory: one event and one count,
-- whoever was the first to know of it.
local core = require "dlock.core"
local engine = require "spec.support.engine"
local memory = require("spec.support.memory").load()
local steady = require "spec.support.steady"

local finish = engine.finish

describe("a loss", function()
  local e

  local function set_up()
    e = assert(engine.new(memory, { shown = "memory:", io_timeout = 0.2 }))
  end

  local function tear_down()
    finish(e:close(1))
    e = nil
    collectgarbage()
  end

  local it = steady(set_up, tear_down)

  local function acquire(key, o)
    return finish(assert(engine.acquire(e, key, o)))
  end

  local events

  before_each(function() events = {} end)

  local function expect(lost, ended)
    for _, event in ipairs(e:events() or {}) do
      events[#events + 1] = event
    end
    local found = e:stats()
    assert.equal(lost, found.lost)
    assert.equal(ended, found.hold.count)
    assert.equal(found.acquires.granted - ended, found.held)
    assert.equal(lost, #events)
    for _, event in ipairs(events) do assert.equal("lost", event.kind) end
  end

  it("that its release finds is counted and told", function()
    local lease = acquire("silent:a")
    assert(finish(e:break_lock("silent:a")))
    expect(0, 0)
    assert.equal("lost", (select(3, finish(core.release(lease)))))
    expect(1, 1)
    assert.equal(core.id(lease), events[1].lease)
    assert.matches("^lost: 'silent:a' is not held any more: .",
      events[1].message)
    assert.equal("lost", (select(3, finish(core.release(lease)))))
    expect(1, 1)
  end)

  -- At most 1024 events wait; those that were taken do not count.
  it("are told however many there were in the life of the store", function()
    local function lose()
      local lease = acquire("silent:a")
      assert(finish(e:break_lock("silent:a")))
      finish(core.release(lease))
      return core.id(lease)
    end
    for _ = 1, 1100 do
      local id = lose()
      local found = e:events()
      assert.equal(1, #found)
      assert.equal(id, found[1].lease)
    end
    local first, last = lose(), nil
    for _ = 1, 1024 do last = lose() end
    local found = e:events()
    assert.equal(1024, #found)
    assert.equal(first + 1, found[1].lease)
    assert.equal(last, found[1024].lease)
  end)

  it("that a release finds for which nobody waits is so too", function()
    local lease = acquire("silent:a")
    local other = assert(acquire("silent:b", { provisional = true }))
    for _, key in ipairs { "silent:a", "silent:b" } do
      assert(finish(e:break_lock(key)))
    end
    core.release_later(lease)
    assert(finish(e:ping()))
    expect(1, 1)
    assert.is_true(core.held(other))
    other = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert(finish(e:ping()))
    expect(2, 2)
  end)

  -- At its deadline it is given back to the store, which says what it finds.
  it("is one loss, whatever the release says that follows it", function()
    local leases = {}
    for i, key in ipairs { "there", "silent:gone" } do
      leases[i] = acquire(key, { ttl = 0.2, renew = false })
    end
    assert(finish(e:break_lock("silent:gone")))
    for _, lease in ipairs(leases) do
      assert(finish(core.wait_lost(lease, 5)))
    end
    assert(finish(e:ping()))
    expect(2, 2)
    for _, lease in ipairs(leases) do
      assert.equal("lost", (select(3, finish(core.release(lease)))))
    end
    expect(2, 2)
  end)

  it("is none when the release has no answer", function()
    local lease = acquire("deaf:a")
    assert.equal("unavailable", (select(3, finish(core.release(lease)))))
    assert(finish(e:ping()))
    expect(0, 1)
  end)

  it("is none when the lock goes on to another one here", function()
    local lease = acquire("a", { handoffs = 5 })
    local next_one = assert(engine.acquire(e, "a", { handoffs = 5 }))
    assert.is_true(finish(core.release(lease)))
    next_one = assert(finish(next_one))
    expect(0, 1)
    assert(finish(e:break_lock("a")))
    expect(1, 2)
    assert.equal("lost", (select(3, finish(core.release(next_one)))))
    expect(1, 2)
  end)
end)
