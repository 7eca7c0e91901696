-- The engine alone, over a store in memory that misbehaves on demand: its
-- tickets, its leases and their renewal, the renewal thread, and its end.
local core = require "dlock.core"
local engine = require "spec.support.engine"
local leaks = require "spec.support.leaks"
local lot = require "spec.support.lot"
local memory = require("spec.support.memory").load()
local steady = require "spec.support.steady"

local finish = engine.finish

local function open(conf)
  conf = conf or {}
  conf.shown = "memory:"
  conf.io_timeout = conf.io_timeout or 0.2
  return assert(engine.new(memory, conf))
end

local function ask(e, key, o)
  return engine.acquire(e, key, o)
end

local function acquire(e, key, o)
  return finish(assert(ask(e, key, o)))
end

-- Time passes while Lua computes and calls nothing.
local function compute(seconds)
  local till = core.now() + seconds
  while core.now() < till do end
end

-- Those that are not among these. (One that was joined may be among them, and
-- go: it is listed for an instant yet.)
local function threads_beside(others)
  local found = {}
  for id, name in pairs(leaks.threads()) do
    if not others[id] then found[#found + 1] = { id = id, name = name } end
  end
  return found
end

describe("engine", function()
  local e

  local function set_up() e = open() end

  local function tear_down()
    finish(e:close(1))
    e = nil
    collectgarbage()
  end

  -- A store that is given 0.2 s to answer, and leases of less than a second.
  local it = steady(set_up, tear_down)

  -- Where no answer is the subject, and not for how long nobody waits for one.
  local function open_patient()
    finish(e:close(1))
    e = open { io_timeout = 10 }
  end

  it("goes on renewing when a renewal fails", function()
    local lease = acquire(e, "flaky:a", { ttl = 0.9 })
    compute(1.1)
    assert.is_true(core.held(lease))
  end)

  it("ends a lease without renewal at its ttl, and gives it back", function()
    local lease = acquire(e, "a", { ttl = 0.2, renew = false })
    assert.is_true(finish(core.wait_lost(lease)))
    assert.is_false(core.held(lease))
    assert.equal(0, core.remaining(lease))
    assert.equal("lost", (select(3, finish(core.release(lease)))))
    assert.is_truthy(acquire(e, "a", { timeout = 1 }))
  end)

  it("says lost when the store says so, once and for ever", function()
    local lease = acquire(e, "gone:a", { ttl = 1 })
    assert.is_true(finish(core.wait_lost(lease, 5)))
    local events = e:events()
    assert.equal("lost", events[1].kind)
    assert.equal(core.id(lease), events[1].lease)
    assert.equal("gone:a", events[1].key)
    assert.is_nil(e:events())
    local _, message, code = finish(core.extend(lease, 1))
    assert.equal("lost", code)
    assert.matches("the test took it away", message)
    assert.is_false(core.held(lease))
  end)

  it("ends all leases of a session with it, each with an event", function()
    local leases, waits = {}, {}
    for i = 1, 3 do
      leases[i] = assert(acquire(e, "session:" .. i))
      waits[i] = core.wait_lost(leases[i], 10)
    end
    for i = 1, 3 do
      assert.is_true(finish(waits[i]))
      assert.is_false(core.held(leases[i]))
      assert.equal("lost", (select(3, finish(core.release(leases[i])))))
    end
  end)

  it("reports once that the lock was asked for", function()
    local lease = acquire(e, "a")
    for _ = 1, 3 do finish(e:revoke("a")) end
    local events = e:events()
    assert.equal("revoked", events[1].kind)
    assert.equal("a", events[1].key)
    assert.equal(1, #events)
    assert.is_nil(e:events())
    assert.is_true(core.held(lease))
  end)

  it("shows the state of a lease", function()
    local lost = acquire(e, "b")
    assert.matches("^dlock.lease: b fence=1 held ", tostring(lost))
    finish(e:break_lock("b"))
    assert.equal("dlock.lease: b fence=1 lost", tostring(lost))
    local released = acquire(e, "a")
    finish(core.release(released))
    assert.matches(" released$", tostring(released))
    assert.has_error(function() core.share(released) end)
  end)

  it("asks again when a grant came too late to be of use", function()
    local lease = assert(acquire(e, "late:a", { ttl = 3 }))
    assert.equal(2, lease.fence)
    assert.is_true(core.held(lease))
  end)

  it("has a grant on a claim renewed before its end, also without renewal",
  function()
    local lease = acquire(e, "claim:a", { ttl = 30, renew = false })
    local left = core.remaining(lease)
    assert.is_true(left <= 2 or e:stats().renewed == 1, left)
    local limit = core.now() + 5
    repeat until core.remaining(lease) > 20 or core.now() > limit
    assert.is_true(core.remaining(lease) > 20)
  end)

  it("loses a grant on a claim that cannot be renewed", function()
    local lease = acquire(e, "claim-gone:a", { ttl = 30 })
    assert.is_true(finish(core.wait_lost(lease)))
    assert.is_false(core.held(lease))
    assert.equal("lost", (select(3, finish(core.release(lease)))))
  end)

  it("refuses a try whose grant came too late", function()
    local got, _, code = acquire(e, "late:a", { ttl = 0.3, wait = false })
    assert.is_nil(got)
    assert.equal("unavailable", code)
  end)

  it("answers in bounded time when the store never does", function()
    local before = core.now()
    local _, message, code = acquire(e, "never:a", { timeout = 0.1 })
    assert.equal("unavailable", code)
    assert.matches("'never:a'", message)
    assert.is_true(core.now() - before < 3)
  end)

  it("answers a try in one io_timeout when the store never does", function()
    finish(e:close(1))
    e = open { io_timeout = 1 }
    local before = core.now()
    local _, _, code = acquire(e, "never:a", { wait = false })
    local took = core.now() - before
    assert.equal("unavailable", code)
    assert.is_true(took >= 1 and took < 1.8, took)
  end)

  it("extends from now on and renews with the new ttl", function()
    local lease = acquire(e, "a", { ttl = 1 })
    local left = finish(core.extend(lease, 60))
    assert.is_true(left > 50 and left <= 60)
    assert.equal(60, lease.ttl)
  end)

  it("keeps to the shorter time of an extension that failed", function()
    open_patient()
    local lease = acquire(e, "stuck:a", { ttl = 30, renew = false })
    local shorter = core.extend(lease, 3)
    core.drive(shorter, 0.01)
    shorter:cancel()
    assert.equal("cancelled", (select(3, finish(shorter))))
    local longer = core.extend(lease, 60) -- nobody knows about that one either
    core.drive(longer, 0.01)
    assert.is_true(core.remaining(lease) <= 3)
    longer:cancel()
    finish(longer)
  end)

  it("cancels a wait", function()
    local lease = acquire(e, "a")
    local ticket = ask(e, "a")
    assert.is_false(core.drive(ticket, 0.01))
    ticket:cancel()
    local _, _, code = finish(ticket)
    assert.equal("cancelled", code)
    assert.is_true(core.held(lease))
  end)

  it("gives back a grant that is not taken", function()
    local ticket = ask(e, "slow:a")
    core.drive(ticket, 0.01)
    ticket = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    for _ = 1, 100 do
      compute(0.05)
      if not finish(e:locked("slow:a")) then break end
    end
    assert.is_false(finish(e:locked("slow:a")))
  end)

  it("lets a lease that is collected end at its deadline", function()
    local start = core.now()
    local lease = acquire(e, "a", { ttl = 0.9 }) -- luacheck: ignore
    while core.now() < start + 0.5 do -- it is renewed once
      finish(e:ping())
    end
    lease = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.equal(1, e:stats().held)
    local next_one = assert(acquire(e, "a"))
    local waited = core.now() - start
    assert.is_true(waited > 0.9 + 0.2 and waited < 3, waited)
    assert.is_true(finish(core.release(next_one)))
  end)

  it("releases a lease that is collected before it was given", function()
    acquire(e, "a", { provisional = true, ttl = 60 })
    collectgarbage()
    collectgarbage()
    assert.is_truthy(acquire(e, "a"))
  end)

  it("release_later needs no caller to drive the loop", function()
    local lease = acquire(e, "a")
    core.release_later(lease)
    assert.is_false(core.held(lease))
    assert.is_truthy(acquire(e, "a"))
    assert.is_true(finish(core.release(lease)))
  end)

  it("takes no store that was built for another version", function()
    local later = require("spec.support.memory").load("later")
    local ok, problem = pcall(engine.new, later, { shown = "later:" })
    assert.is_false(ok)
    assert.matches("built for another version", problem)
  end)

  it("ends a shared hold with its last handle", function()
    local outer = acquire(e, "a")
    local inner = core.share(outer)
    assert.equal(outer.fence, inner.fence)
    assert.is_true(finish(core.release(inner)))
    assert.is_true(core.held(outer))
    assert.is_false(core.held(inner))
    assert.is_true(finish(core.release(outer)))
    assert.is_false(finish(e:locked("a")))
    assert.has_error(function() core.share(outer) end)
  end)

  it("detaches nothing that another handle holds", function()
    local outer = acquire(e, "a")
    local inner = core.share(outer)
    assert.equal("unsupported", (select(3, core.detach(outer))))
    assert.is_true(core.held(outer) and core.held(inner))
  end)

  it("detaches and attaches once", function()
    local lease = acquire(e, "a")
    local text = finish(core.detach(lease))
    assert.is_false(core.held(lease))
    assert.equal("lost", (select(3, core.release(lease))))
    local again = finish(e:attach(text))
    assert.is_true(core.held(again))
    assert.equal(lease.fence, again.fence)
    assert.equal("lost", (select(3, finish(e:attach(text)))))
    assert.is_true(finish(core.release(again)))
  end)

  it("detaches when nothing else is under way for the lease", function()
    open_patient()
    local lease = acquire(e, "stuck:a")
    local extension = core.extend(lease, 60)
    local detach = core.detach(lease)
    assert.is_false(core.drive(detach, 0.01))
    extension:cancel()
    local again = finish(e:attach(finish(detach)))
    assert.equal("cancelled", (select(3, finish(extension))))
    assert.is_true(finish(core.release(again)))
  end)

  it("a detach that waits ends with its time, or with the lease", function()
    open_patient()
    local lease = acquire(e, "stuck:a")
    local extension = core.extend(lease, 60)
    local detach = core.detach(lease)
    detach:cancel()
    assert.equal("cancelled", (select(3, finish(detach))))
    assert.is_false(extension:poll())
    extension:cancel()
    assert.equal("cancelled", (select(3, finish(extension))))

    lease = acquire(e, "stuck:b")
    extension, detach = core.extend(lease, 60), core.detach(lease)
    finish(e:break_lock("stuck:b"))
    assert.equal("lost", (select(3, finish(detach))))
    extension:cancel()
    finish(extension)
  end)

  it("ends a detached lease at its ttl if it is not attached", function()
    local lease = acquire(e, "a", { ttl = 0.6 })
    finish(core.detach(lease))
    assert.is_truthy(acquire(e, "a", { timeout = 5 }))
  end)

  -- Whatever crosses, nothing is renewed afterwards.
  it("leaves nothing after 20,000 crossings of cancel and release", function()
    local first = acquire(e, "a")
    for i = 1, lot.rounds(20000) do
      local ticket = ask(e, "a", { ttl = 0.3 })
      if i % 3 == 0 then ticket:cancel() end
      if first then core.release_later(first) end
      if i % 2 == 0 then ticket:cancel() end
      first = finish(ticket)
    end
    if first then finish(core.release(first)) end
    first = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.is_false(finish(e:locked("a")))
    local before = finish(e:ping())
    compute(0.4)
    assert.equal(before + 1, finish(e:ping()))
  end)

  it("renews a thousand leases in few batches", function()
    local leases = {}
    for i = 1, 1000 do
      leases[i] = acquire(e, "k" .. i, { ttl = 3 })
      if i % 10 == 0 then compute(0.003) end
    end
    local before = finish(e:ping())
    compute(1.5)
    local batches = finish(e:ping()) - before - 1
    assert.is_true(batches >= 1 and batches <= 40, batches .. " batches")
    for i = 1, 1000 do assert.is_true(core.held(leases[i])) end
  end)
end)

describe("engine's end", function()
  it("does nothing on open but check", function()
    local before = leaks.snapshot()
    local e = open()
    assert.same({}, leaks.since(before, 0))
    assert.is_truthy(e)
  end)

  it("cancels waits, releases leases, and says closed from then on", function()
    local e = open()
    local lease = acquire(e, "a")
    local ticket = ask(e, "a")
    core.drive(ticket, 0.01)
    assert.is_true(finish(e:close(1)))
    assert.equal("cancelled", (select(3, ticket:take())))
    assert.is_false(core.held(lease))
    assert.equal("closed", (select(3, ask(e, "b"))))
    assert.is_true(finish(e:close(1)))
  end)

  it("closes in bounded time although the store is mute", function()
    local e = open()
    local ticket = ask(e, "never:a")
    core.drive(ticket, 0.01)
    local before = core.now()
    assert.is_true(finish(e:close(0.2)))
    assert.is_true(core.now() - before < 2)
    assert.is_true(ticket:poll())
  end)

  it("does not wait when there is nothing to wait for", function()
    local e = open()
    acquire(e, "a")
    local before = core.now()
    assert.is_true(finish(e:close(5)))
    assert.is_true(core.now() - before < 4)
  end)

  it("is ended by the collector", function()
    local before = leaks.snapshot()
    local e = open()
    local lease = acquire(e, "a", { provisional = true }) -- luacheck: ignore
    assert.equal(1, #threads_beside(before.threads))
    e, lease = nil, nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    collectgarbage()
    assert.same({}, leaks.since(before, 5))
  end)

  it("waits for a lease that was collected with it", function()
    local before = leaks.snapshot()
    acquire(open(), "a", { ttl = 0.3 })
    collectgarbage()
    collectgarbage()
    assert.equal(1, #threads_beside(before.threads))
    compute(0.35)
    open() -- looks for what is over
    assert.same({}, leaks.since(before, 5))
  end)

  it("says so when its store does not support a request", function()
    local e = open()
    local found, message, code = finish(e:inspect("k"))
    assert.same({ nil, "unsupported: 'k': the store 'memory:' cannot do that",
      "unsupported" }, { found, message, code })
    finish(e:close(1))
  end)
end)
