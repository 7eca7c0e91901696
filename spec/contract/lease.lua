-- What a lease can do while it is ours.

local assert = require "luassert"

return function(t, it, timed)
  timed("renewal beyond the ttl, while Lua does something else", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key, { ttl = 1.2 }))
    local until_ = t:now() + 2
    while t:now() < until_ do
      assert.is_true(lease:held())
      assert.are.equal("busy", select(3, b:try_lock(key)))
      t:sleep(0.1)
    end
    assert.is_true(lease:remaining() > 0)
    assert.is_true(lease:release())
  end)

  timed("remaining, which falls, and extend, which lifts it", function()
    -- On ZooKeeper no lease claims more than its session is good for.
    local store, key = t:open { session_timeout = 10 }, t:key()
    local lease = assert(store:lock(key, { ttl = 3, renew = false }))
    local first = lease:remaining()
    t:sleep(0.15)
    local before, second = t:now(), lease:remaining()
    assert.is_true(second <= first - 0.14, second)
    -- It ended then, or later, and ends later now, however long that took.
    local ended = before + second
    local left = assert(lease:extend())
    assert.is_true(t:now() + left > ended + 0.1 and left <= 3, left)
    assert.is_true(lease:remaining() + t:now() > ended + 0.1)
    left = assert(lease:extend(5))
    assert.is_true(left > 3.2 and left <= 5, left)
    assert.are.equal(5, lease.ttl)
    left = assert(lease:extend(2))
    assert.is_true(left <= 2 and left > 0, left)
    assert.is_true(lease:release())
  end)

  timed("an extend that outlasts the first ttl on the server too", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key, { ttl = 0.7, renew = false }))
    assert(lease:extend(10))
    t:sleep(0.9)
    assert.is_true(lease:held())
    assert.are.equal("busy", select(3, b:try_lock(key)))
    assert.is_true(lease:release())
  end)

  timed("min_hold, which keeps the key after a release", function()
    local a, b, key = t:open(), t:open(), t:key()
    local start = t:now()
    local lease = assert(a:lock(key, { min_hold = 0.5 }))
    assert.is_true(lease:release())
    assert.is_false(lease:held())
    t:is_kept(b:mutex(key), start, 0.49)
    local next_one = assert(b:lock(key, { timeout = 5 }))
    assert.is_true(t:now() - start >= 0.49)
    assert.is_true(next_one:release())
  end)

  it("min_hold, which counts from the grant and not from the release",
  function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key, { min_hold = 0.2 }))
    t:sleep(0.25)
    assert.is_true(lease:release())
    assert(b:try_lock(key)):release()
  end)

  it("a lease with min_hold that was broken is lost at its release", function()
    local a, b, key = t:open(), t:open(), t:key()
    for _, of in ipairs {
      function(store) return store:mutex(key) end,
      function(store) return store:rwlock(key):write() end,
      function(store) return store:rwlock(key):read() end,
      function(store) return store:semaphore(key, 2) end,
    } do
      for _, call in ipairs { "release", "release_later" } do
        local lease = assert(of(a):acquire { min_hold = 30 })
        assert.is_true(b:break_lock(key))
        local next_one = assert(b:lock(key, { timeout = 5 }))
        local _, _, code = lease[call](lease)
        assert.are.equal(call == "release" and "lost" or nil, code)
        assert(a:ping())
        assert.is_true(next_one:held())
        assert.is_true(next_one:release())
      end
    end
    t:expect_nothing_left()
  end)

  it("release_later", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key))
    assert.is_true(lease:release_later())
    assert.is_false(lease:held())
    assert(b:lock(key, { timeout = 5 })):release()
    t:expect_nothing_left()
  end)

  timed("a lease that is collected, which ends at its ttl", function()
    local events = {}
    local a, b, key = t:open { on_event = function(event)
      if event.kind == "dropped" then events[#events + 1] = event end
    end }, t:open(), t:key()
    local function forget()
      local lease = assert(a:lock(key, { ttl = 1.5 }))
      t:sleep(0.8) -- it was renewed
      return lease:held()
    end
    assert.is_true(forget())
    collectgarbage()
    collectgarbage()
    local dropped = t:now()
    assert.are.equal("busy", select(3, b:try_lock(key)))
    assert(b:lock(key, { timeout = 10 })):release()
    local waited = t:now() - dropped
    assert.is_true(waited > 0.4 and waited < 4, waited)
    assert(a:ping())
    t:eventually("the event", function() return events[1] end)
    assert.are.equal(1, #events)
    assert.are.equal(key, events[1].key)
    t:expect_nothing_left()
  end)

  it("a lease that is collected with an object whose own finaliser releases it",
    function()
      local a, b, key = t:open(), t:open(), t:key()
      local results
      local function finaliser(fn)
        if not newproxy then
          return setmetatable({}, { __gc = fn })
        end
        local proxy = newproxy(true)
        getmetatable(proxy).__gc = fn
        return proxy
      end
      -- Where a loop runs, a finaliser may be in no place to wait.
      local calls = { "release_later", t.host.blocks and "release" }
      -- One of the two was made before the lease, so it is finalised after.
      for _, call in ipairs(calls) do
        local function forget()
          local own = {}
          local function fn()
            results[#results + 1] = { pcall(own.lease[call], own.lease) }
          end
          own.first = finaliser(fn)
          own.lease = assert(a:lock(key, { ttl = 60, timeout = 5 }))
          own.second = finaliser(fn)
        end
        results = {}
        forget()
        collectgarbage()
        collectgarbage()
        assert.are.same({ { true, true }, { true, true } }, results)
      end
      assert(b:lock(key, { timeout = 5 })):release()
      t:expect_nothing_left()
    end)

  timed("a lease that is kept alive, and with it the store", function()
    local b, key = t:open(), t:key()
    local lease
    do
      local dlock = require "dlock"
      lease = assert(assert(dlock.open { url = t.subject.url(),
        host = t.host.option }):lock(key, { ttl = 1.2 }))
    end
    for _ = 1, 3 do
      collectgarbage()
      t:sleep(0.5)
      assert.are.equal("busy", select(3, b:try_lock(key)))
    end
    assert.is_true(lease:release())
    assert(b:try_lock(key)):release()
  end)

  if _VERSION == "Lua 5.4" then
    local load_closing = function(body)
      return assert(load("local store, key, arg = ...\n" .. body))
    end

    it("a to-be-closed variable", function()
      local a, b, key = t:open(), t:open(), t:key()
      local fence = load_closing [[
        local lease <close> = assert(store:lock(key))
        return lease.fence
      ]](a, key)
      local lease = assert(b:try_lock(key))
      assert.is_true(lease.fence > fence)
      lease:release()
      local value = {}
      local ok, problem = t:pcall(load_closing [[
        local lease <close> = assert(store:lock(key))
        error(arg)
      ]], a, key, value)
      assert.is_false(ok)
      assert.are.equal(value, problem)
      assert(b:try_lock(key)):release()
    end)

    local only_nested = t.host.nests and it or function() end

    only_nested("a to-be-closed variable in a coroutine that is closed",
    function()
      local a, b, key, co = t:open(), t:open(), t:key(), nil
      t:wrap(load_closing [[
        local lease <close> = assert(store:lock(key))
        arg()
        coroutine.yield()
      ]])(a, key, function() co = coroutine.running() end)
      assert.are.equal("busy", select(3, b:try_lock(key)))
      assert.is_true(coroutine.close(co))
      assert(b:lock(key, { timeout = 5 })):release()
    end)

    it("a to-be-closed variable whose lease was lost: no error", function()
      local a, key = t:open(), t:key()
      load_closing [[
        local lease <close> = assert(store:lock(key,
          { ttl = 0.1, renew = false }))
        arg:sleep(0.2)
      ]](a, key, t)
    end)
  end

  it("a ttl of more than a day that nothing renews, which is told once",
  function()
    local heard = {}
    local store = t:open { on_event = function(event)
      if event.kind == "suspicious" then heard[#heard + 1] = event end
    end }
    local function held(opts)
      local lease = assert(store:lock(t:key(), opts))
      assert(lease:release())
      store:ping()
      return lease.key, #heard
    end
    assert.are.equal(0, select(2, held { ttl = 86400, renew = false }))
    assert.are.equal(0, select(2, held { ttl = 100000 }))
    local key, count = held { ttl = 100000, renew = false }
    assert.are.equal(1, count)
    assert.are.equal(key, heard[1].key)
    assert.matches(" 100000 s, .* in seconds, not milliseconds",
      heard[1].message)
    assert.are.equal(1, select(2, held { ttl = 100000, renew = false }))
    local late = 0
    local other = t:open { on_event = function(event)
      if event.kind == "suspicious" then late = late + 1 end
    end }
    local lease = assert(other:lock(t:key(), { renew = false }))
    assert(lease:extend(200000))
    assert(lease:release())
    other:ping()
    assert.are.equal(1, late)
    t:expect_nothing_left()
  end)

  -- Where leases end with their process there is nothing to carry one.
  local moves = t.subject.portable and it or function() end

  if not t.subject.portable then
    it("detach and attach: unsupported, and the lease stays", function()
      local store, key = t:open(), t:key()
      local lease = assert(store:lock(key))
      for _, ask in ipairs { function() return lease:detach() end,
          function() return store:attach("x") end } do
        local got, message, code = ask()
        assert.is_nil(got)
        assert.are.equal("unsupported", code)
        assert.matches("^unsupported: .*pass the lease object.* etcd", message)
      end
      local _, message = lease:detach()
      assert.is_truthy(message:find("'" .. key .. "'", 1, true), message)
      assert.is_true(lease:held())
      assert(lease:extend())
      assert.are.equal("busy", select(3, t:open():try_lock(key)))
      assert.is_true(lease:release())
      assert.are.equal("lost", select(3, lease:detach()))
      t:expect_nothing_left()
    end)
  end

  moves("detach and attach", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key, { ttl = 20 }))
    local fence = lease.fence
    local text = assert(lease:detach())
    assert.are.equal("string", type(text))
    assert.is_false(lease:held())
    assert.are.equal("busy", select(3, b:try_lock(key)))
    lease = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.are.equal("busy", select(3, b:try_lock(key)))
    local again = assert(a:attach(text))
    assert.are.equal(key, again.key)
    assert.are.equal(fence, again.fence)
    assert.is_true(again:held())
    assert.is_true(again:release())
    assert(b:try_lock(key)):release()
    t:expect_nothing_left()
  end)

  moves("max_hold, which an attached lease has of its own", function()
    local a, b = t:open(), t:open()
    local c = t:open { max_hold = 0.4 }
    for _, way in ipairs { { a, { max_hold = 0.4 } }, { c } } do
      local key, store, opts = t:key(), way[1], way[2]
      local text = assert(assert(b:lock(key, { ttl = 20, max_hold = 15 }))
        :detach())
      local lease = assert(store:attach(text, opts))
      assert.is_true(lease:remaining() <= 0.4)
      assert.is_true(lease:wait_lost(10))
    end
    local text = assert(assert(b:lock(t:key(), { ttl = 20, max_hold = 5 }))
      :detach())
    local lease = assert(a:attach(text))
    assert.is_true(lease:remaining() > 5.1)
    assert.is_true(lease:release())
    local got, message, code = a:attach(text, { max_hold = -1 })
    assert.is_nil(got)
    assert.are.equal("invalid", code, message)
    assert.has_error(function() a:attach(text, { maxhold = 1 }) end)
    t:expect_nothing_left(25)
  end)

  moves("min_hold, which goes on through detach and attach", function()
    local a, b, key = t:open(), t:open(), t:key()
    local start = t:now()
    local lease = assert(a:lock(key, { ttl = 20, min_hold = 0.4 }))
    for _ = 1, 2 do
      lease = assert(a:attach(assert(lease:detach())))
    end
    assert.is_true(lease:release())
    local next_one = assert(b:lock(key, { timeout = 5 }))
    assert.is_true(t:now() - start >= 0.39)
    next_one:release()
    t:expect_nothing_left()
  end)

  moves("a release after a detach says how that ended", function()
    local a, key = t:open(), t:key()
    local lease = assert(a:lock(key, { ttl = 0.1, renew = false }))
    t:sleep(0.2)
    assert.are.equal("lost", select(3, lease:detach()))
    local _, message, code = lease:release()
    assert.are.equal("lost", code)
    assert.matches("was lost before it was detached$", message)
    assert.matches("lost$", tostring(lease))
    lease = assert(a:lock(key))
    assert(assert(a:attach(assert(lease:detach()))):release())
    _, message, code = lease:release()
    assert.are.equal("lost", code)
    assert.matches("was detached from this lease$", message)
  end)

  moves("a string that works once", function()
    local a, b, key = t:open(), t:open(), t:key()
    local function is_used(text)
      for _, store in ipairs { a, b } do
        local got, message, code = store:attach(text)
        assert.is_nil(got)
        assert.are.equal("lost", code, message)
        assert.matches("^lost: ", message)
      end
    end
    local text = assert(assert(a:lock(key, { ttl = 20 })):detach())
    local lease = assert(b:attach(text))
    is_used(text)
    assert.is_true(lease:release())
    is_used(text)
    repeat -- on a slow machine it is lost before
      local message, code
      text, message, code = assert(a:lock(key, { ttl = 0.5 })):detach()
      assert(text or code == "lost", message)
    until text
    assert(b:lock(key, { timeout = 15 })):release()
    is_used(text)
    t:expect_nothing_left()
  end)

  moves("a string that no detach gave", function()
    local store = t:open()
    for _, bad in ipairs { "", "garbage", "r", "r:", "r:garbage", "x:1",
      ("\0"):rep(99), ("y"):rep(5000) } do
      local lease, message, code = store:attach(bad)
      assert.is_nil(lease)
      assert.are.equal("invalid", code, message)
      assert.matches("^invalid: ", message)
    end
    local lease = assert(store:lock(t:key()))
    local text = assert(lease:detach())
    local _, message = store:attach(text .. "x")
    for part in text:gmatch("%x+") do -- its token opens the lock
      assert.is_true(#part < 16 or not message:find(part, 1, true), message)
    end
    assert(assert(store:attach(text)):release())
    assert.has_error(function() store:attach(5) end)
  end)

  moves("a string whose store was closed", function()
    local a, b, key = t:open(), t:open(), t:key()
    local text = assert(assert(a:lock(key, { ttl = 20 })):detach())
    a:close()
    assert.is_true(assert(b:attach(text)):release())
    t:expect_nothing_left()
  end)

  moves("attach to another store of this process", function()
    local a, b, other, key = t:open(), t:open(), t:open(), t:key()
    local text = assert(assert(a:lock(key, { ttl = 20 })):detach())
    local lease = assert(b:attach(text))
    assert.are.equal(key, lease.key)
    local left = assert(lease:extend(10))
    assert.is_true(left > 0 and left <= 10, left)
    assert.are.equal("timeout", select(3, lease:wait_lost(0.1)))
    assert.are.equal("busy", select(3, other:try_lock(key)))
    assert.is_true(lease:release())
    assert(other:try_lock(key)):release()
    t:expect_nothing_left()
  end)

  moves("attach, which makes its owner known to all", function()
    local a, b, c = t:open { name = "A" }, t:open { name = "B" }, t:open()
    local key, kept = t:key(), t:key()
    local text = assert(assert(a:lock(key, { value = "v" })):detach())
    assert(a:revoke(key))
    local lease = assert(b:attach(text))
    assert.are.equal("B", lease.owner:match("^B") or lease.owner)
    for _, store in ipairs { a, b, c } do
      local holder = assert(store:inspect(key)).holders[1]
      assert.are.equal(lease.owner, holder.owner)
      assert.are.equal("v", holder.value)
      local _, message = store:try_lock(key)
      assert.is_truthy(message:find("held by " .. lease.owner, 1, true),
        message)
    end
    t:eventually("the revoke is heard", function()
      return lease:extend() and lease:revoked()
    end)
    local own = assert(b:attach(assert(assert(a:lock(kept,
      { owner = "job 1" })):detach())))
    assert.are.equal(own.owner, assert(c:inspect(kept)).holders[1].owner)
    assert.is_true(own:release())
    for _ = 1, 2 do
      lease = assert(a:attach(assert(lease:detach())))
      assert.are.equal(lease.owner, assert(c:inspect(key)).holders[1].owner)
      lease = assert(b:attach(assert(lease:detach())))
    end
    assert.are.equal(lease.owner, assert(c:inspect(key)).holders[1].owner)
    assert.is_true(lease:release())
    t:expect_nothing_left()
  end)

  -- Of each store what renews its leases has to begin with the attach.
  local moves_in_time = t.subject.portable and timed or function() end

  moves_in_time("attach to a store that was idle, which renews it from then on",
  function()
    local a, b, used = t:open(), t:open { session_timeout = 3 },
      t:open { session_timeout = 3 }
    assert(used:lock(t:key())):release()
    assert(used:ping())
    t:sleep(1)
    local leases = {}
    for i, store in ipairs { b, used } do
      leases[i] = assert(store:attach(assert(assert(a:lock(t:key(),
        { ttl = 3 })):detach())))
    end
    local lost, why, code = leases[1]:wait_lost(4.5)
    assert.are.equal("timeout", code, lost and why)
    for _, lease in ipairs(leases) do
      assert.is_true(lease:held())
      assert.is_true(lease:release())
    end
    t:expect_nothing_left()
  end)

  moves("attach to a store with another prefix, which has other keys",
  function()
    local a, key = t:open(), t:key()
    local apart = t:open { prefix = "/" .. key }
    local text = assert(assert(a:lock(key, { ttl = 20 })):detach())
    local got, message, code = apart:attach(text)
    assert.is_nil(got)
    assert.are.equal("lost", code, message)
    assert.are.equal("busy", select(3, a:try_lock(key)))
    local lease = assert(apart:try_lock(key))
    assert.is_true(assert(a:attach(text)):release())
    assert.is_true(lease:release())
    t:expect_nothing_left()
  end)

  moves("attach to a store that spells the prefix that this one left out",
  function()
    local a, key = t:open(), t:key()
    local spelled = t:open { prefix = t:default_prefix() }
    local text = assert(assert(a:lock(key, { ttl = 20 })):detach())
    local lease = assert(spelled:attach(text))
    assert.are.equal("busy", select(3, a:try_lock(key)))
    assert.is_true(lease:release())
    t:expect_nothing_left()
  end)

  -- `renew = false`: it ends at its ttl, whoever has it by then.
  moves("detach and attach without renewal, which add no time", function()
    local a, b, other, peer = t:open(), t:open(), t:open(), t:peer()
    local opts = { ttl = 3, renew = false }
    -- A detached lease, and the first and last moment at which it may end: as
    -- it believed, and as the server has counted since it answered.
    local function detached(lockable)
      local lease = assert(lockable:acquire())
      local last = t:now() + opts.ttl
      t:sleep(0.3)
      local before, left = t:now(), lease:remaining()
      return assert(lease:detach()), before + left, last
    end

    local function attached(text, first, last)
      local asked = t:now()
      local lease = assert(b:attach(text))
      local before, left, after = t:now(), lease:remaining(), t:now()
      local took = before - asked -- it counts from when it was asked
      assert.is_true(before + left <= last + 0.01, before + left - last)
      assert.is_true(after + left >= first - took - 0.05, after + left - first)
      assert.are.equal(3, lease.ttl)
      return lease
    end

    local leases = {}
    for i, lockable in ipairs { a:mutex(t:key(), opts),
        a:rwlock(t:key(), opts):read() } do
      leases[i] = attached(detached(lockable))
    end
    local text, _, last = detached(a:mutex(t:key(), opts))
    local now = t:now()
    peer:run("l = assert(store:attach(%q))", text)
    assert.is_true(now + peer:run("return l:remaining()") <= last + 0.01)
    for _, lease in ipairs(leases) do
      assert.is_truthy(lease:wait_lost(10))
      assert(other:lock(lease.key, { timeout = 5 })):release()
    end
    t:expect_nothing_left(5)
  end)

  moves("attach in another process", function()
    local store, key, peer = t:open(), t:key(), t:peer()
    local lease = assert(store:lock(key, { ttl = 20 }))
    peer:run("l = assert(store:attach(%q))", assert(lease:detach()))
    assert.are.equal("busy", select(3, store:try_lock(key)))
    assert.are.equal("true", peer:run("return l:release()"))
    assert(store:try_lock(key)):release()
    t:expect_nothing_left()
  end)
end
