-- Leases that are not ours any more, and how one hears of it.

local assert = require "luassert"

return function(t, it, timed)
  local function short(store, key)
    return assert(store:lock(key, { ttl = 0.3, renew = false }))
  end

  timed("renew = false: the lease ends at its ttl, on every store", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = short(a, key)
    assert.is_true(lease:held())
    local next_one = assert(b:lock(key, { timeout = 5 }))
    assert.is_false(lease:held())
    assert.are.equal(0, lease:remaining())
    assert.matches(" lost$", tostring(lease))
    assert.is_true(next_one.fence > lease.fence)
    local released, message, code = lease:release()
    assert.is_nil(released)
    assert.are.equal("lost", code)
    assert.is_truthy(message:find("^lost: .*" .. key), message)
    assert.are.equal("lost", select(3, lease:release()))
    assert.are.equal("lost", select(3, lease:extend()))
    assert.matches(" lost$", tostring(lease)) -- the release changed nothing
    assert.is_true(next_one:held())
    assert.are.equal("busy", select(3, a:try_lock(key)))
    assert.is_true(next_one:release())
    t:expect_nothing_left()
  end)

  timed("max_hold: renewal ends", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key, { ttl = 0.9, max_hold = 1.5 }))
    t:sleep(1)
    assert.is_true(lease:held())
    local next_one = assert(b:lock(key, { timeout = 5 }))
    assert.is_false(lease:held())
    assert.are.equal("lost", select(3, lease:release()))
    assert.is_true(next_one:release())
  end)

  it("on_lost, at the next call that may wait, once", function()
    local store, key, heard = t:open(), t:key(), {}
    local lease = short(store, key)
    lease:on_lost(function(...) heard[#heard + 1] = { ... } end)
    t:has_lost(store)
    assert.is_false(lease:held())
    assert.are.equal(0, #heard) -- never from held()
    store:ping()
    assert.are.equal(1, #heard)
    assert.are.equal(lease, heard[1][1])
    assert.is_truthy(heard[1][2]:find("^lost: .*" .. key), heard[1][2])
    store:ping()
    assert.are.equal(1, #heard)
  end)

  it("on_lost, at the first call behind the deadline", function()
    local store, key = t:open(), t:key()
    for i = 1, 8 do
      local reason
      local lease = assert(store:lock(key .. i, i % 2 == 0
        and { max_hold = 0.1 } or { ttl = 0.1, renew = false }))
      lease:on_lost(function(_, why) reason = why end)
      repeat until not lease:held() -- the engine's thread may be later
      assert.is_nil(reason)
      assert(store:ping())
      assert.matches(i % 2 == 0 and "max_hold has passed$"
        or "its ttl has passed$", reason)
    end
  end)

  it("on_lost, at the first call behind a deadline that came nearer",
    function()
      local store, key, heard = t:open(), t:key(), 0
      local lease = assert(store:lock(key, { renew = false }))
      lease:on_lost(function() heard = heard + 1 end)
      assert(lease:extend(0.1))
      repeat until not lease:held()
      assert(store:ping())
      assert.equal(1, heard)
      t:eventually("the event of it", function()
        return store:stats().lost == 1
      end)
      assert(store:ping())
      assert.equal(1, heard)
    end)

  if t.host.blocks then
    it("on_lost, told why also of a loss that the release finds", function()
      local store, key, reason = t:open(), t:key(), nil
      local lease = assert(store:lock(key))
      lease:on_lost(function(_, why) reason = why end)
      assert(t:open():break_lock(key))
      lease:release()
      t:eventually("on_lost", function()
        store:ping()
        return reason
      end)
      assert.matches("^lost: .* is not held any more: .", reason)
    end)

    timed("on_lost, at the next call of another store too", function()
      local a, b, key, heard = t:open(), t:open(), t:key(), {}
      assert(b:ping())
      local lease, again = short(a, key), nil
      lease:on_lost(function()
        heard[#heard + 1] = "first"
        again = assert(a:lock(key .. "b", { ttl = 0.7, renew = false }))
        again:on_lost(function() heard[#heard + 1] = "second" end)
      end)
      t:has_lost(a)
      assert.are.same({}, heard)
      assert(b:ping())
      assert.are.same({ "first" }, heard)
      assert.is_true(again:held())
      t:has_lost(a, 2)
      assert(b:lock(key .. "c")):release()
      assert.are.same({ "first", "second" }, heard)
      a:close()
      assert(b:ping())
      t:expect_nothing_left()
    end)
  end

  it("on_lost of a lease that was lost before", function()
    local store, key, heard = t:open(), t:key(), 0
    local lease = short(store, key)
    t:has_lost(store)
    store:ping() -- takes the event of it
    lease:on_lost(function() heard = heard + 1 end)
    assert.are.equal(0, heard)
    store:ping()
    store:ping()
    assert.are.equal(1, heard)
  end)

  timed("on_lost, but not after a release", function()
    local store, key, heard = t:open(), t:key(), 0
    local lease = assert(store:lock(key, { ttl = 0.7, renew = false }))
    lease:on_lost(function() heard = heard + 1 end)
    assert.is_true(lease:release())
    lease:on_lost(function() heard = heard + 1 end)
    t:sleep(0.8)
    store:ping()
    assert.are.equal(0, heard)
  end)

  -- Whoever is the first to know of it: the store, a request on the lease, or
  -- its release, also one that nobody waits for.
  local first_to_know = {
    release = function(lease) lease:release() end,
    release_later = function(lease) lease:release_later() end,
    collector = function() end,
    extend = function(lease)
      lease:extend()
      lease:release()
    end,
    wait_lost = function(lease)
      lease:wait_lost(10)
      lease:release()
    end,
  }

  for name, learn in pairs(first_to_know) do
    it("a lost lease is counted once, and told once: " .. name, function()
      local events = {}
      local a, b, key = t:open { on_event = function(event)
        if event.kind == "lost" then
          events[#events + 1] = event.message
          events.key = event.key
        end
      end }, t:open(), t:key()
      assert(b:ping())
      local lease = assert(a:lock(key, { ttl = 1.5 }))
      assert.is_true(b:break_lock(key))
      learn(lease)
      lease = nil -- luacheck: ignore
      t:eventually("it is counted and told", function()
        collectgarbage()
        a:ping()
        return a:stats().lost > 0 and #events > 0
      end)
      assert(a:lock(key .. "after")):release()
      local found = a:stats()
      assert.are.equal(1, found.lost)
      assert.are.equal(0, found.held)
      assert.are.equal(found.acquires.granted, found.hold.count)
      assert.are.equal(1, #events, table.concat(events, "; "))
      assert.matches("^lost: .*" .. key, events[1])
      assert.are.equal(key, events.key)
    end)
  end

  it("a release that went well is no loss", function()
    local events = 0
    local store = t:open { on_event = function(event)
      if event.kind == "lost" then events = events + 1 end
    end }
    local lease = assert(store:lock(t:key()))
    assert.is_true(lease:release())
    assert(store:ping())
    assert.are.equal(0, store:stats().lost)
    assert.are.equal(0, events)
  end)

  if not t.host.blocks then
    -- How a coroutine comes to release a lock that was broken.
    local ways = {
      release = function(lease) return select(3, lease:release()) end,
      with = function(_, store, key, inner)
        return select(3, store:with(key, function(lease)
          inner(lease)
        end))
      end,
    }

    for name, way in pairs(ways) do
      it("on_lost that waits keeps nobody: " .. name, function()
        local b, key, ran, events = t:open(), t:key(), {}, {}
        local a = t:open { on_event = function(event)
          if event.kind == "callback" then
            events[#events + 1] = event.message
          end
        end }
        local held = assert(b:lock(key .. "held"))
        local function prepare(lease)
          lease:on_lost(function()
            ran[#ran + 1] = "first"
            assert(a:lock(key .. "held", { timeout = 10 })):release()
            ran[#ran + 1] = "late"
          end)
          lease:on_lost(function() error("oops") end)
          lease:on_lost(function() ran[#ran + 1] = "second" end)
          assert.is_true(b:break_lock(key))
        end
        local lease
        if name == "release" then
          lease = assert(a:lock(key))
          prepare(lease)
        end
        assert.are.equal("lost", way(lease, a, key, prepare))
        assert.are.same({ "first", "second" }, ran)
        assert.are.equal(1, #events)
        assert.matches("oops", events[1])
        assert.is_true(held:release())
        t:eventually("the first ends", function()
          a:ping()
          return ran[3]
        end)
      end)
    end
  end

  timed("on_lost of each handle of a hold that is not released", function()
    local store, key, heard = t:open(), t:key(), {}
    local opts = { ttl = 0.3, renew = false, reentrant = true }
    local leases = {}
    for i = 1, 3 do
      leases[i] = assert(store:lock(key, opts))
      leases[i]:on_lost(function(lease)
        assert.are.equal(leases[i], lease)
        heard[#heard + 1] = i
      end)
    end
    leases[2]:release()
    t:has_lost(store)
    store:ping()
    table.sort(heard)
    assert.are.same({ 1, 3 }, heard)
  end)

  it("errors in on_lost, which go to on_event", function()
    local events, ran = {}, 0
    local store, key = t:open { on_event = function(event)
      events[#events + 1] = event
    end }, t:key()
    local lease = short(store, key)
    lease:on_lost(function() error("oops") end)
    lease:on_lost(function() ran = ran + 1 end)
    t:has_lost(store)
    store:ping()
    assert.are.equal(1, ran)
    local found
    for _, event in ipairs(events) do
      assert.are.equal("string", type(event.kind))
      found = found or event.message:find("oops", 1, true)
    end
    assert.is_truthy(found)
  end)

  timed("wait_lost", function()
    local store, key = t:open(), t:key()
    local lease = assert(store:lock(key, { ttl = 0.8, renew = false }))
    local got, message, code = lease:wait_lost(0.1)
    assert.is_nil(got)
    assert.are.equal("timeout", code)
    assert.is_truthy(message:find("^timeout: "))
    assert.is_true(lease:held())
    local start = t:now()
    assert.is_truthy(lease:wait_lost(10))
    assert.is_true(t:now() - start < 3)
    assert.is_false(lease:held())
    assert.is_truthy(lease:wait_lost())
  end)

  timed("a holder that is killed, whose lock is free again", function()
    local store, key, peer = t:open(), t:key(), t:peer(2)
    peer:run("l = assert(store:lock('%s', { ttl = 1 }))", key)
    assert.are.equal("busy", select(3, store:try_lock(key)))
    peer:kill()
    assert(store:lock(key, { timeout = 20 })):release()
    t:expect_nothing_left(10)
  end)

  if t.subject.delete then
    it("a key that an admin deleted: the next renewal sees it", function()
      local a, b, key = t:open(), t:open(), t:key()
      local lease = assert(a:lock(key, { ttl = 0.9 }))
      t.subject.delete(key)
      assert.is_truthy(lease:wait_lost(10))
      assert.is_false(lease:held())
      local next_one = assert(b:lock(key))
      assert.is_true(next_one.fence > lease.fence)
      assert.are.equal("lost", select(3, lease:release()))
      assert.are.equal("lost", select(3, lease:extend()))
      assert.is_true(next_one:held())
      assert.are.equal("busy", select(3, a:try_lock(key)))
      next_one:release()
    end)

    it("a deleted key: release and extend say lost", function()
      local store = t:open()
      for _, call in ipairs { "release", "extend" } do
        local key = t:key()
        local lease = assert(store:lock(key))
        t.subject.delete(key)
        local got, message, code = lease[call](lease)
        assert.is_nil(got)
        assert.are.equal("lost", code, message)
        assert.is_false(lease:held())
      end
    end)
  end
end
