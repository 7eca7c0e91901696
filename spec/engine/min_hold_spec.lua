-- min_hold is for whoever was given the lock: what nobody was given is released
-- without it, in whatever way it comes back. The store in memory says of the
-- key that its min_hold keeps that it is locked.
local core = require "dlock.core"
local engine = require "spec.support.engine"
local memory = require("spec.support.memory").load()

local drive, finish = engine.drive, engine.finish

describe("min_hold of a lease", function()
  local e

  local function open()
    return assert(engine.new(memory, { shown = "memory:", io_timeout = 0.2 }))
  end

  before_each(function() e = open() end)

  after_each(function()
    finish(e:close(1))
    e = nil
    collectgarbage()
  end)

  local function ask(key, o)
    o = o or {}
    o.min_hold = 60
    return engine.acquire(e, key, o)
  end

  -- What was asked before this is over; the store has had it.
  local function is_kept(key)
    finish(e:ping())
    return finish(e:locked(key))
  end

  it("that was taken counts at its release", function()
    local lease = assert(finish(ask "a"))
    assert.is_true(finish(core.release(lease)))
    assert.is_true(is_kept "a")
  end)

  it("that was taken counts when it is collected, too", function()
    finish(ask "a")
    collectgarbage()
    collectgarbage()
    assert.is_true(is_kept "a")
  end)

  it("that nobody took is nothing", function()
    drive(ask "a"):abandon()
    assert.is_false(is_kept "a")
    drive(ask "b")
    collectgarbage() -- the ticket, with what it got
    collectgarbage()
    assert.is_false(is_kept "b")
  end)

  it("that crossed a cancel is nothing", function()
    local ticket = ask "cross:a"
    ticket:cancel()
    assert.equal("cancelled", (select(3, finish(ticket))))
    assert.is_false(is_kept "cross:a")
  end)

  it("that crossed the end of a wait which is answered well counts", function()
    local lease = assert(finish(ask("cross:a", { timeout = 0.05 })))
    core.release_later(lease)
    assert.is_true(is_kept "cross:a")
  end)

  it("that came too late is nothing, and of the next one it counts", function()
    local _, _, code = finish(ask("late:a", { ttl = 0.3, wait = false }))
    assert.equal("unavailable", code)
    assert.is_false(is_kept "late:a")
    finish(e:close(1))
    e = open()
    local lease = assert(finish(ask("late:a", { ttl = 3 })))
    assert.is_true(finish(core.release(lease)))
    assert.is_true(is_kept "late:a")
  end)

  it("that is provisional is nothing, however it ends", function()
    local function taken(key, ttl)
      return assert(finish(ask(key, { provisional = true, ttl = ttl })))
    end
    assert.is_true(finish(core.release(taken "a")))
    assert.is_false(is_kept "a")
    core.release_later(taken "b")
    assert.is_false(is_kept "b")
    taken "c"
    collectgarbage()
    collectgarbage()
    assert.is_false(is_kept "c")
    local lease = taken "d"
    core.give(lease)
    assert.is_true(finish(core.release(lease)))
    assert.is_true(is_kept "d")
    finish(e:close(1))
    e = open()
    lease = taken("late:e", 3)
    assert.equal(2, lease.fence) -- the first grant came too late
    assert.is_true(finish(core.release(lease)))
    assert.is_false(is_kept "late:e")
  end)
end)
