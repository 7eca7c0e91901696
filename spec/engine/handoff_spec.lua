-- Local hand-off: a released lock goes to the next waiter of the same engine
-- without a request to the store, if it came before the last request to the
-- store, or before every waiter that queues there, or (`handoffs`) a number of
-- times. Over the store in memory, whose ping tells how many requests came.
local core = require "dlock.core"
local lot = require "spec.support.lot"
local resident = require "spec.support.resident"
local steady = require "spec.support.steady"

local ask, close = resident.ask, resident.close
local finish, free_soon = resident.finish, resident.free_soon

describe("local hand-off:", function()
  local e, requests

  local timed = steady(function()
    e = resident.open()
    requests = resident.counter(e)
  end, function()
    assert.is_true(close(e))
    e, requests = nil, nil
    collectgarbage()
  end)

  local function want(key, o)
    o = o or {}
    o.handoffs, o.timeout = o.handoffs or 16, o.timeout or 60
    return ask(e, key, o)
  end

  local function hold(key, o)
    return assert(finish(e, want(key, o)))
  end

  local function release(lease)
    assert.is_true(finish(e, core.release(lease)))
  end

  local function count() return e:stats().local_handoffs end

  -- Returns when the local queue has been looked at, which happens in a turn of
  -- its own that may come after the next one's.
  local function looked()
    requests()
    requests()
  end

  -- Returns when a counter has grown (beyond `before`).
  local function counted(name, before)
    local deadline = core.now() + 10
    before = before or e:stats()[name]
    repeat
      assert(core.now() < deadline, name .. " does not grow")
    until e:stats()[name] > before
  end

  -- The code of a ticket that fails.
  local function code(ticket)
    return (select(3, finish(e, ticket)))
  end

  it("waiters get it in order, with their fences, by no request", function()
    local lease, tickets = hold("a"), {}
    for i = 1, 10 do tickets[i] = want("a") end
    local before = requests()
    for i = 1, 10 do
      assert.is_false(tickets[i]:poll())
      local last = lease
      release(lease)
      assert.is_false(core.held(last))
      lease = assert(finish(e, tickets[i]))
      assert.is_true(core.held(lease))
      assert.equal(last.fence + 1, lease.fence)
    end
    assert.equal(before, requests())
    assert.equal(10, count())
    assert.is_true(e:stats().renewed < 10) -- nor is each renewed at once
    release(lease)
    assert.is_true(free_soon(e, "a"))
  end)

  it("the old lease is released, whatever is asked of it", function()
    local old, ticket = hold("a"), want("a")
    release(old)
    local new = assert(finish(e, ticket))
    assert.is_true(finish(e, core.release(old)))
    assert.equal("lost", (select(3, core.extend(old, 1))))
    assert.equal(0, core.remaining(old))
    assert.is_true(core.held(new))
    assert.equal("busy", code(ask(e, "a", { wait = false })))
  end)

  it("after so many the next one asks the store", function()
    local lease, tickets, fences = hold("a", { handoffs = 2 }), {}, {}
    for i = 1, 6 do tickets[i] = want("a", { handoffs = 2 }) end
    for i = 1, 6 do
      local before = requests()
      release(lease)
      lease = assert(finish(e, tickets[i]))
      local asked = i % 3 == 0 and 2 or 0 -- a release, an acquire
      assert.equal(before + asked, requests())
      fences[i] = lease.fence
    end
    assert.same({ 2, 3, 4, 5, 6, 7 }, fences)
    assert.equal(4, count())
  end)

  it("a waiter without it is served in its turn", function()
    local lease = hold("a")
    local tickets = { want("a"), ask(e, "a", { timeout = 60 }), want("a") }
    local last = lease.fence
    for _, ticket in ipairs(tickets) do
      release(lease)
      lease = assert(finish(e, ticket))
      assert.is_true(lease.fence > last)
      last = lease.fence
    end
    assert.equal(2, count()) -- the last one was here when the second asked
  end)

  local function fair(key)
    return ask(e, key, { timeout = 60 })
  end

  it("waiters that came before the first one asked go along", function()
    local lease, tickets = assert(finish(e, fair("a"))), {}
    for i = 1, 6 do tickets[i] = fair("a") end
    looked() -- all have been looked at
    for i = 1, 2 do -- the first one stood there alone
      release(lease)
      lease = assert(finish(e, tickets[i]))
    end
    assert.equal(0, count())
    local late, before = fair("a"), requests()
    for i = 3, 6 do
      local last = lease
      release(lease)
      lease = assert(finish(e, tickets[i]))
      assert.is_false(core.held(last))
      assert.equal(last.fence + 1, lease.fence)
    end
    assert.equal(4, count())
    -- Who came later asks as soon as nobody is before it.
    requests()
    assert.equal(before + 1, requests())
    release(lease)
    assert(finish(e, late))
    assert.equal(4, count())
  end)

  it("a later waiter does not take the place of one that left", function()
    local lease, tickets = assert(finish(e, fair("a"))), {}
    for i = 1, 4 do tickets[i] = fair("a") end
    looked()
    for i = 1, 2 do
      release(lease)
      lease = assert(finish(e, tickets[i]))
    end
    tickets[4]:cancel()
    assert.equal("cancelled", code(tickets[4]))
    local late = fair("a")
    for _, ticket in ipairs { tickets[3], late } do
      release(lease)
      lease = assert(finish(e, ticket))
    end
    assert.equal(1, count())
  end)

  it("so do waiters that came before the next in the store's queue",
    function()
      local lease = assert(finish(e, fair("line:a")))
      local first = fair("line:a")
      looked() -- the first one asks, alone
      local second = fair("line:a")
      local other = ask(e, "line:a", { units = 1, timeout = 60 }) -- of another
      local late = fair("line:a")
      release(lease)
      lease = assert(finish(e, first))
      local fence = lease.fence
      release(lease)
      lease = assert(finish(e, second))
      assert.equal(fence + 1, lease.fence)
      assert.equal(1, count())
      release(lease)
      assert.is_false(late:poll())
      release(assert(finish(e, other)))
      release(assert(finish(e, late)))
      assert.equal(1, count())
    end)

  it("at most 256 go along with one question", function()
    local lease, tickets = assert(finish(e, fair("line:a"))), {}
    for i = 1, 301 do tickets[i] = fair("line:a") end
    for i = 1, 301 do
      release(lease)
      lease = assert(finish(e, tickets[i]))
      local questions = i > 257 and 2 or 1
      assert.equal(i - questions, count())
    end
  end)

  it("one that goes along may be of the other kind", function()
    local lease, tickets = hold("a"), {}
    tickets[1] = fair("a")
    looked()
    tickets[2], tickets[3], tickets[4] = fair("a"), want("a"), fair("a")
    for i = 1, 4 do
      release(lease)
      lease = assert(finish(e, tickets[i]))
    end
    assert.equal(2, count())
  end)

  it("each one's own number of jumps is kept", function()
    local lease, tickets = hold("a", { handoffs = 5 }), {}
    for i = 1, 3 do tickets[i] = want("a", { handoffs = 1 }) end
    release(lease)
    lease = assert(finish(e, tickets[1]))
    local before = requests()
    release(lease)
    lease = assert(finish(e, tickets[2]))
    assert.equal(before + 2, requests())
    assert.equal(1, count())
    release(lease)
    assert(finish(e, tickets[3]))
  end)

  it("one that is held for a while is renewed before a third of its ttl",
    function()
      local lease, ticket = hold("a", { ttl = 60 }), want("a", { ttl = 60 })
      release(lease)
      lease = assert(finish(e, ticket))
      counted("renewed", 0) -- the first one, however early it is
      assert.is_true(core.held(lease))
    end)

  it("a wait that comes without it stands in the store's queue", function()
    local lease = hold("a")
    local before = requests()
    local ticket = ask(e, "a", { timeout = 60 })
    requests() -- it is submitted in a turn of its own
    assert.equal(before + 1, requests())
    release(lease)
    assert(finish(e, ticket))
    assert.equal(0, count())
  end)

  it("one that wants something else does not take over", function()
    for i, other in ipairs { { ttl = 20 }, { owner = "another" },
        { renew = false }, { min_hold = 0.01 }, { value = "v" } } do
      local key = "a" .. i
      local lease, ticket = hold(key), want(key, other)
      release(lease)
      release(assert(finish(e, ticket)))
      assert.equal(0, count(), i)
      lease, ticket = hold(key, other), want(key)
      release(lease)
      release(assert(finish(e, ticket)))
      assert.equal(0, count(), i)
    end
  end)

  it("the first one's time-out lets another kind to the store", function()
    local lease = hold("a")
    local late = want("a", { timeout = 0.05 })
    local before = requests()
    local other = ask(e, "a", { timeout = 60 })
    assert.is_true(requests() == before or late:poll()) -- stands behind it
    assert.equal("timeout", code(late))
    requests()
    assert.equal(before + 2, requests()) -- one asked for the late one
    release(lease)
    assert(finish(e, other))
  end)

  it("waits that timed out, were cancelled or dropped are skipped", function()
    local lease = hold("a")
    local late, cancelled = want("a", { timeout = 0.05 }), want("a")
    local dropped = want("a") -- luacheck: ignore
    local last = want("a")
    assert.equal("timeout", code(late))
    cancelled:cancel()
    dropped = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    core.release_later(lease)
    assert.equal("cancelled", code(cancelled))
    assert.equal(lease.fence + 1, assert(finish(e, last)).fence)
    assert.equal(1, count())
  end)

  it("release_later, the end of a scope and of a collected lease pass it on",
    function()
      local scope, tickets = resident.scope(), {}
      local lease = assert(finish(e, want("a", { ttl = 2 }), -- luacheck: ignore
        scope))
      for i = 1, 3 do tickets[i] = want("a", { ttl = 2 }) end
      scope:finish()
      lease = nil -- luacheck: ignore
      core.release_later(assert(finish(e, tickets[1])))
      lease = finish(e, tickets[2]) -- luacheck: ignore
      tickets[2], lease = nil, nil -- luacheck: ignore
      collectgarbage()
      collectgarbage()
      assert.equal(2, count())
      assert.is_true(assert(finish(e, tickets[3])).fence > 3)
    end)

  it("a grant that is not taken goes on", function()
    local lease, scope = hold("a"), resident.scope()
    local crossed = want("a")
    scope:own(crossed)
    local last = want("a")
    core.release_later(lease)
    local deadline = core.now() + 10
    repeat until crossed:poll() or core.now() > deadline
    scope:finish()
    assert.equal(3, assert(finish(e, last)).fence)
  end)

  it("a lost lock is asked for anew", function()
    local lease, ticket = hold("a"), want("a")
    finish(e, e:break_lock("a"))
    assert.is_false(core.held(lease))
    assert.equal(18, assert(finish(e, ticket)).fence)
    assert.equal("lost", (select(3, finish(e, core.release(lease)))))
    assert.equal(0, count())
  end)

  it("a loss after it ends the new lease", function()
    local old, ticket = hold("a"), want("a")
    release(old)
    local new = assert(finish(e, ticket))
    local again = want("a")
    finish(e, e:break_lock("a"))
    assert.is_false(core.held(new))
    assert.is_true(finish(e, core.release(old)))
    assert.equal("lost", (select(3, finish(e, core.release(new)))))
    assert.equal(18, assert(finish(e, again)).fence)
    assert.equal(core.id(new), e:events()[1].lease)
  end)

  it("another client that revoked the lock comes first", function()
    local lease, ticket = hold("a"), want("a")
    finish(e, e:revoke("a"))
    assert.is_true(core.revoked(lease))
    release(lease)
    assert.is_false(core.revoked(assert(finish(e, ticket))))
    assert.equal(0, count())
  end)

  timed("a lease that ends by max_hold is not passed on", function()
    local lease = hold("a", { max_hold = 0.1 })
    local ticket = want("a", { max_hold = 5 })
    assert.is_true(finish(e, core.wait_lost(lease, 5)))
    lease = assert(finish(e, ticket))
    assert.equal(0, count())
    ticket = want("a", { max_hold = 0.2 })
    local before = core.now()
    release(lease)
    lease = assert(finish(e, ticket))
    assert.equal(1, count())
    local left = core.remaining(lease) -- its own, from now
    local passed = core.now() - before
    assert.is_true(left + passed > 0.199 and left <= 0.2)
    assert.is_true(finish(e, core.wait_lost(lease, 5)))
  end)

  timed("it is renewed as any other", function()
    local lease, ticket = hold("a", { ttl = 1 }), want("a", { ttl = 1 })
    release(lease)
    lease = assert(finish(e, ticket))
    assert.is_nil(finish(e, core.wait_lost(lease, 1.2)))
    assert.is_true(core.held(lease))
    assert.equal(1, count())
    ticket = want("a", { ttl = 1 })
    counted "renewed"
    release(lease)
    assert(finish(e, ticket))
    assert.equal(2, count())
  end)

  timed("one whose renewal fails is not passed on", function()
    local lease = hold("stale:a", { ttl = 2 })
    local ticket = want("stale:a", { ttl = 2 })
    counted "renew_failed"
    release(lease)
    assert(finish(e, ticket))
    assert.equal(0, count())
  end)

  -- It is renewed together with another lease, before it is due by itself.
  timed("one whose renewal is under way is passed on, but not when it is late",
    function()
      local first = hold("first", { ttl = 2 })
      local lease = hold("mum:a", { ttl = 2 })
      local two, three = want("mum:a", { ttl = 2 }), want("mum:a", { ttl = 2 })
      counted "renewed"
      release(lease)
      lease = assert(finish(e, two))
      assert.equal(1, count())
      while core.remaining(lease) > 0.6 do requests() end
      release(lease)
      assert(finish(e, three))
      assert.equal(1, count())
      release(first)
    end)

  it("nor one on which a request is under way, or ended unknown", function()
    local lease, ticket = hold("stuck:a"), want("stuck:a")
    local asked = core.extend(lease, 30)
    release(lease)
    lease = assert(finish(e, ticket))
    assert.equal("unavailable", code(asked))
    assert.equal(0, count())
    ticket = want("stuck:a")
    assert.equal("unavailable", code(core.extend(lease, 30)))
    release(lease)
    assert(finish(e, ticket))
    assert.equal(0, count())
  end)

  it("an extended lease goes to waiters with that ttl", function()
    local lease, ticket = hold("a"), want("a")
    assert(finish(e, core.extend(lease, 40)))
    release(lease)
    lease = assert(finish(e, ticket))
    assert.equal(0, count())
    assert(finish(e, core.extend(lease, 40)))
    ticket = want("a", { ttl = 40 })
    release(lease)
    lease = assert(finish(e, ticket))
    assert.equal(1, count())
    assert.equal(40, lease.ttl)
  end)

  it("closing ends the waits, and nothing stays held", function()
    local other = resident.open()
    local function mine()
      return ask(other, "a", { handoffs = 16, timeout = 60 })
    end
    local lease = assert(finish(other, mine()))
    local first, second = mine(), mine()
    core.release_later(lease)
    lease = assert(finish(other, first))
    second:watch()
    close(other)
    assert.is_false(core.held(lease))
    assert.equal("cancelled", (select(3, second:take())))
  end)

  it("a caller that drives the loop gets it from the store", function()
    local other = resident.open(false)
    local function drive(ticket)
      repeat until core.drive(ticket, 0.2)
      return ticket:take()
    end
    local lease = assert(drive(ask(other, "a", { handoffs = 16 })))
    local ticket = ask(other, "a", { handoffs = 16 })
    drive(core.release(lease))
    assert.equal(18, assert(drive(ticket)).fence)
    assert.equal(0, other:stats().local_handoffs)
    drive(other:close(1))
  end)

  -- What may cross: releases of each kind, scopes that end before or after the
  -- grant, waits that are cancelled or dropped.
  it("20,000 crossings lose no waiter, and fences rise", function()
    local last, waiting = 0, {}
    for i = 1, lot.rounds(20000) do
      local scope = resident.scope()
      local ticket = want("a", { handoffs = i % 7 })
      if i % 5 == 0 then
        scope:own(ticket)
        scope:finish()
      else
        waiting[#waiting + 1] = { scope = scope, ticket = ticket }
        if i % 11 == 0 then ticket:cancel() end
      end
      if #waiting == 8 then
        for n, one in ipairs(waiting) do
          local lease = finish(e, one.ticket, one.scope)
          if lease then
            assert.is_true(lease.fence > last)
            last = lease.fence
          end
          if lease and n % 3 == 0 then
            core.release_later(lease)
          elseif lease and n % 3 == 1 then
            release(lease)
          end
          one.scope:finish()
        end
        waiting = {}
      end
    end
    assert.is_true(count() > lot.rounds(1000))
    assert.is_true(free_soon(e, "a"))
  end)
end)
