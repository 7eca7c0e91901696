-- The engine in resident mode, which event loops use: only its renewal thread
-- runs the loop; a ticket that is done is reported by its number, and a
-- descriptor becomes readable. Scopes: what ends with a request.
local core = require "dlock.core"
local leaks = require "spec.support.leaks"
local lot = require "spec.support.lot"
local resident = require "spec.support.resident"
local uv = require "luv"

local ask, close, finish = resident.ask, resident.close, resident.finish
local free_soon, open = resident.free_soon, resident.open

describe("resident engine", function()
  local e

  before_each(function() e = open() end)

  after_each(function()
    assert.is_true(close(e))
    e = nil
    collectgarbage()
  end)

  it("works although no caller drives it, and wakes the listener", function()
    local lease = assert(finish(e, ask(e, "slow:a")))
    assert.is_true(core.held(lease))
    assert.is_true(finish(e, core.release(lease)))
    assert.is_false(finish(e, e:locked("slow:a")))
  end)

  it("reports each watched ticket once, and no other", function()
    local watched, tickets, told, left = {}, {}, {}, 0
    for i = 1, 1000 do
      tickets[i] = ask(e, "slow:" .. i)
      local id = i % 2 == 0 and tickets[i]:watch()
      if id then -- else it was done before, and may be reported or not
        watched[id], left = true, left + 1
      end
    end
    local most, count, got = 500, 0, {}
    while left > 0 do
      local n, more = e:completed(got)
      for i = 1, n do
        assert.is_nil(told[got[i]])
        told[got[i]], count = true, count + 1
        left = left - (watched[got[i]] and 1 or 0)
      end
      assert.is_true(more == (n == 256))
    end
    assert.is_true(count <= most)
    for i = 2, 1000, 2 do assert.is_true(tickets[i]:poll()) end
  end)

  it("reuses numbers, but none that it reported last", function()
    local held = assert(finish(e, ask(e, "a")))
    local most, got, last = 0, {}, {}
    for _ = 1, 300 do
      local waited = {}
      for _ = 1, 3 do
        local ticket = ask(e, "a", { timeout = 60 })
        local number = ticket:watch()
        assert.is_nil(waited[number])
        assert.is_nil(last[number])
        waited[number], most = true, math.max(most, number)
        ticket:cancel()
      end
      while next(waited) do
        last = {}
        for i = 1, e:completed(got) do
          waited[got[i]], last[got[i]] = nil, true
        end
      end
    end
    assert.is_true(most < 100)
    core.release_later(held)
  end)

  it("has the store queue whoever shares, behind writers of its own", function()
    local held = assert(finish(e, ask(e, "a")))
    local before = finish(e, e:ping())
    local writer, reader = ask(e, "a"), ask(e, "a", { units = 1 })
    assert.equal(before + 3, finish(e, e:ping())) -- each, and this one
    writer:cancel()
    reader:cancel()
    core.release_later(held)
  end)

  it("gives no number for a ticket that is done", function()
    local ticket = ask(e, "a")
    repeat until ticket:poll()
    assert.is_nil(ticket:watch())
    assert.is_truthy(ticket:take())
  end)

  it("wakes the listener for a lost lease", function()
    local lease = finish(e, ask(e, "gone:a", { ttl = 0.3 }))
    -- It may be lost already, and the acquire's end have taken its wakeup.
    local poll, found = uv.new_poll(e:wakeup()), e:events()
    poll:start("r", function()
      e:completed({}) -- the acquire may have made it readable
      found = found or e:events()
    end)
    while not found do uv.run("once") end
    poll:close()
    uv.run("nowait")
    assert.equal("lost", found[1].kind)
    assert.is_false(core.held(lease))
  end)

  it("lets a caller drive, which then only waits", function()
    local before = core.now()
    local ticket = ask(e, "slow:a") -- granted after 0.1 s
    local done = core.drive(ticket, 0.01)
    assert.is_true(not done or core.now() - before >= 0.1)
    repeat until core.drive(ticket, 0.2)
    assert.is_truthy(ticket:take())
    assert.is_true(core.now() - before < 2)
  end)

  it("goes over to it in the middle of a wait", function()
    local other = resident.open(false)
    local ticket = ask(other, "slow:a")
    core.drive(ticket, 0.01)
    other:resident()
    assert.is_truthy(finish(other, ticket))
    close(other)
  end)

  it("sends bytes down its line when something is done, and beats", function()
    local held = assert(finish(e, ask(e, "b")))
    local path = assert(e:serve())
    local stat = assert(uv.fs_stat(path:match("^(.*)/")))
    assert.equal(448, stat.mode % 512) -- 0700
    local pipe, bytes, connected = uv.new_pipe(false), 0, nil
    pipe:connect(path, function(err) connected = err or true end)
    while not connected do uv.run("once") end
    assert.is_true(e:accept())
    assert.is_nil(uv.fs_stat(path))
    assert.is_nil(uv.fs_stat(path:match("^(.*)/")))
    pipe:read_start(function(err, data)
      bytes = not err and data and bytes + #data or -1
    end)
    while bytes == 0 do uv.run("once") end
    local before = core.now()
    local seen = bytes
    while bytes == seen do uv.run("once") end -- a beat
    assert.is_true(core.now() - before < 2)
    seen = bytes
    local ticket = ask(e, "b", { timeout = 60 })
    local id = ticket:watch()
    core.release_later(held)
    local got = {}
    repeat uv.run("once") until e:completed(got) > 0
    assert.equal(id, got[1])
    assert.is_true(bytes > seen)
    e:hang_up()
    while bytes ~= -1 do uv.run("once") end
    pipe:close()
    uv.run("nowait")
  end)

  it("accepts only the socket that connected, and can serve again", function()
    assert.is_false(e:accept())
    local first = assert(e:serve())
    local second = assert(e:serve())
    assert.is_nil(uv.fs_stat(first))
    assert.is_truthy(uv.fs_stat(second))
    assert.is_false(e:accept())
    assert.is_nil(uv.fs_stat(second))
  end)

  it("ends a scope's waits and leases when the scope ends", function()
    local scope = resident.scope()
    local held = finish(e, ask(e, "a"), scope)
    local kept = finish(e, ask(e, "b"))
    local waiting, crossing = ask(e, "b"), ask(e, "slow:c")
    scope:own(waiting)
    scope:own(crossing)
    scope:finish()
    assert.is_false(core.held(held))
    assert.equal("cancelled", (select(3, finish(e, waiting))))
    assert.is_true(free_soon(e, "a"))
    assert.is_true(free_soon(e, "slow:c"))
    assert.is_true(core.held(kept))
  end)

  it("gives back a grant that a scope's end finds not taken", function()
    local scope = resident.scope()
    local ticket = ask(e, "a")
    scope:own(ticket)
    repeat until ticket:poll()
    scope:finish()
    assert.is_true(free_soon(e, "a"))
    assert.equal("cancelled", (select(3, ticket:take())))
  end)

  it("lets a detached lease outlive its scope", function()
    local scope = resident.scope()
    local lease = finish(e, ask(e, "a"), scope)
    local text = finish(e, core.detach(lease))
    scope:finish()
    local other = resident.scope()
    local again = assert(finish(e, e:attach(text), other))
    assert.is_true(core.held(again))
    other:finish()
    assert.is_true(free_soon(e, "a"))
  end)

  it("ends only its scope's share of a hold", function()
    local one, two = resident.scope(), resident.scope()
    local first = assert(finish(e, ask(e, "a"), one))
    local second, third = core.share(first), core.share(first)
    two:own_lease(second)
    one:own_lease(third)
    one:finish()
    assert.is_false(core.held(first))
    assert.is_false(core.held(third))
    assert.is_true(finish(e, core.release(first)))
    first, third = nil, nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.is_true(core.held(second))
    assert.is_true(finish(e, e:locked("a")))
    two:finish()
    assert.is_false(core.held(second))
    assert.is_true(free_soon(e, "a"))
  end)

  it("ends a hold with the last share, if scopes had the others", function()
    local one, two = resident.scope(), resident.scope()
    local first = assert(finish(e, ask(e, "a"), one))
    local second = core.share(first)
    two:own_lease(second)
    two:finish()
    assert.is_true(core.held(first))
    assert.is_true(finish(e, core.release(first)))
    assert.is_true(free_soon(e, "a"))
    one:finish()
  end)

  it("reports the loss of a hold to each of its shares", function()
    local scope = resident.scope()
    local first = assert(finish(e, ask(e, "a"), scope))
    local second = core.share(first)
    finish(e, e:break_lock("a"))
    for _, lease in ipairs { first, second } do
      assert.is_false(core.held(lease))
      assert.equal("lost", (select(3, finish(e, core.release(lease)))))
    end
    scope:finish()
  end)

  it("does not grow with the leases of a long scope", function()
    local scope = resident.scope()
    collectgarbage()
    collectgarbage()
    local before = collectgarbage("count")
    for _ = 1, 5000 do
      local lease = finish(e, ask(e, "a"), scope)
      assert.is_true(finish(e, core.release(lease)))
    end
    collectgarbage()
    collectgarbage()
    assert.is_true(collectgarbage("count") - before < 500)
    scope:finish()
  end)

  it("puts only the first of its waiters into the store's queue", function()
    local held = assert(finish(e, ask(e, "a")))
    local before = finish(e, e:ping())
    local tickets = {}
    for i = 1, 50 do tickets[i] = ask(e, "a", { timeout = 60 }) end
    assert.equal(before + 2, finish(e, e:ping())) -- one acquire, this ping
    core.release_later(held)
    local last = held.fence
    for i = 1, 50 do -- in order
      local lease = assert(finish(e, tickets[i]))
      assert.is_true(lease.fence > last)
      last = lease.fence
      assert.is_true(finish(e, core.release(lease)))
    end
    assert.is_false(finish(e, e:locked("a")))
  end)

  it("ends a locally queued wait by time-out, cancel and collection", function()
    local held = assert(finish(e, ask(e, "a")))
    local head = ask(e, "a", { timeout = 60 })
    local late, cancelled = ask(e, "a", { timeout = 0.05 }), ask(e, "a")
    local dropped = ask(e, "a") -- luacheck: ignore
    local last = ask(e, "a", { timeout = 60 })
    assert.equal("timeout", (select(3, finish(e, late))))
    cancelled:cancel()
    assert.equal("cancelled", (select(3, finish(e, cancelled))))
    dropped = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    core.release_later(held)
    core.release_later(assert(finish(e, head)))
    core.release_later(assert(finish(e, last)))
    assert.is_true(free_soon(e, "a"))
  end)

  it("goes on with the next when the head gives up or fails", function()
    local held = assert(finish(e, ask(e, "a")))
    local head = ask(e, "a", { timeout = 60 })
    local next_one = ask(e, "a", { timeout = 60 })
    head:cancel()
    assert.equal("cancelled", (select(3, finish(e, head))))
    core.release_later(held)
    core.release_later(assert(finish(e, next_one)))
    for _ = 1, 300 do ask(e, "never:a", { timeout = 0.05 }) end
    assert.equal("unavailable",
      (select(3, finish(e, ask(e, "never:a", { timeout = 0.1 })))))
  end)

  -- Of 50 whose time is over together not each one asks the store.
  it("ends a locally queued wait with what the store says of itself", function()
    for key, code in pairs { ["mute:a"] = "timeout", ["shut:a"] = "timeout",
      ["never:a"] = "unavailable" } do
      local head, tickets = ask(e, key, { timeout = 60 }), {}
      local before = finish(e, e:ping())
      for i = 1, 50 do tickets[i] = ask(e, key, { timeout = 0.1 }) end
      for i = 1, 50 do
        local lease, message, why = finish(e, tickets[i])
        assert.is_nil(lease)
        assert.equal(code, why)
        assert.matches("^" .. code .. ": '" .. key, message)
      end
      if key == "never:a" then
        assert.is_true(finish(e, e:ping()) - before < 25)
      end
      head:cancel()
    end
  end)

  it("ends it also while the store is asked", function()
    local patient = open(true, 60) -- the store is asked until it is closed
    local head, tickets = ask(patient, "never:a", { timeout = 60 }), {}
    local seen, pings = finish(patient, patient:ping()), 0
    for i = 1, 2 do
      tickets[i] = ask(patient, "never:a", { timeout = 0.05 })
    end
    repeat pings = pings + 1
    until finish(patient, patient:ping()) > seen + pings
    tickets[1]:cancel()
    assert.equal("cancelled", (select(3, finish(patient, tickets[1]))))
    local closing = patient:close(1)
    repeat until core.drive(closing, 0.2)
    assert.is_true(closing:take())
    assert.equal("cancelled", (select(3, tickets[2]:take())))
    assert.equal("closed", (select(3, head:take())))
  end)

  it("names the holder to a locally queued wait", function()
    local held = assert(finish(e, ask(e, "a")))
    local head = ask(e, "a", { timeout = 60 })
    local _, message = finish(e, ask(e, "a", { timeout = 0.05 }))
    assert.matches("^timeout: 'a' still held by memory/1 after %d+%.%d+ s$",
      message)
    core.release_later(held)
    core.release_later(assert(finish(e, head)))
  end)

  -- As one does whose time ends right after its turn came.
  it("names the holder to a wait that ends before the store knows it",
  function()
    local held = assert(finish(e, ask(e, "unseen:a")))
    for _ = 1, 2 do
      local _, message = finish(e, ask(e, "unseen:a", { timeout = 0.05 }))
      assert.matches("^timeout: 'unseen:a' still held by memory/1", message)
    end
    core.release_later(held)
    assert.is_true(free_soon(e, "unseen:a"))
  end)

  -- Its holder went on the server, and it was not told; the store then gave the
  -- key to somebody from whom nobody may expect it.
  it("forgets no locally queued wait when another one gets the key", function()
    for units = 0, 1 do -- a try, a reader
      local key = "silent:" .. units
      local old = assert(finish(e, ask(e, key, { handoffs = 16 })))
      local queued = ask(e, key, { handoffs = 16, timeout = 60 })
      finish(e, e:ping())
      finish(e, e:ping())
      assert.is_true(finish(e, e:break_lock(key)))
      assert.is_true(core.held(old))
      local other = ask(e, key, { wait = false, units = units })
      assert.is_true(finish(e, core.release(assert(finish(e, other)))))
      assert.is_true(finish(e, core.release(assert(finish(e, queued)))))
      assert.equal("lost", (select(3, finish(e, core.release(old)))))
      assert.is_true(free_soon(e, key))
    end
  end)

  -- The interleavings of a watch and a finish, and of a grant and an end.
  it("loses no ticket and no lease in 20,000 crossings", function()
    for i = 1, lot.rounds(20000) do
      local scope = resident.scope()
      local ticket = ask(e, "a", { ttl = 0.5 })
      if i % 4 == 0 then
        scope:own(ticket)
        scope:finish()
      else
        local lease = assert(finish(e, ticket, scope))
        if i % 2 == 0 then core.release_later(lease) end
        scope:finish()
      end
    end
    assert.is_true(free_soon(e, "a"))
  end)
end)

describe("resident engine's end", function()
  it("leaves no thread, no descriptor and no directory", function()
    local e = open()
    finish(e, ask(e, "a"))
    close(e)
    local before = leaks.snapshot()
    for _ = 1, 20 do
      e = open()
      finish(e, ask(e, "a"))
      local path = e:serve()
      close(e)
      assert.is_nil(uv.fs_stat(path))
    end
    assert.same({}, leaks.since(before))
  end)

  it("comes although completed tickets were never fetched", function()
    local before = leaks.snapshot()
    local e = open()
    local ticket = ask(e, "slow:a")
    ticket:watch()
    repeat until ticket:poll()
    e, ticket = nil, nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    collectgarbage()
    assert.same({}, leaks.since(before, 5))
  end)

  it("wakes the waiters", function()
    local e = open()
    local held = finish(e, ask(e, "a"))
    local ticket = ask(e, "a", { timeout = 60 })
    local queued = ask(e, "a", { timeout = 60 })
    ticket:watch()
    queued:watch()
    assert.is_true(core.held(held))
    close(e)
    assert.equal(2, (e:completed({})))
    assert.equal("cancelled", (select(3, ticket:take())))
    assert.equal("cancelled", (select(3, queued:take())))
  end)
end)
