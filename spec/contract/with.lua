-- Functions that run under a lock.

local assert = require "luassert"
local protect = require "dlock.protect"

return function(t, it, timed)
  it("results and arguments, nils among them", function()
    local store, key = t:open(), t:key()
    local mutex = assert(store:mutex(key))
    local function count(...) return select("#", ...), ... end
    local function fn(lease, ...)
      assert.are.equal(key, lease.key)
      assert.is_true(lease:held())
      return ...
    end
    for _, call in ipairs {
      function(...) return mutex:with(fn, ...) end,
      function(...) return mutex:with({ ttl = 3 }, fn, ...) end,
      function(...) return mutex:with(nil, fn, ...) end,
      function(...) return store:with(key, fn, ...) end,
      function(...) return store:with(key, { timeout = 2 }, fn, ...) end,
    } do
      assert.are.same({ 5, true, 1, nil, 3, n = 6 },
        { n = 6, count(call(1, nil, 3, nil)) })
      assert.are.same({ 1, true }, { count(call()) })
    end
    assert(store:try_lock(key)):release()
    t:expect_nothing_left()
  end)

  it("anything that can be called", function()
    local store = t:open()
    local callable = setmetatable({}, { __call = function(_, lease, x)
      return lease:held(), x
    end })
    assert.are.same({ true, true, 7 },
      { store:with(t:key(), nil, callable, 7) })
    assert.are.same({ true, true, 7 }, { store:with(t:key(), callable, 7) })
    assert.are.same({ true, true, 7 },
      { store:mutex(t:key()):with(callable, 7) })
    assert.are.same({ true }, { store:with(t:key(), {}, math.abs and type
      and function() end) })
  end)

  it("errors, passed on as they were, with the lock released", function()
    local a, b, key = t:open(), t:open(), t:key()
    for _, value in ipairs { {}, "text", 5, false } do
      local ok, problem = t:pcall(a.with, a, key, function()
        error(value, 0)
      end)
      assert.is_false(ok)
      assert.are.equal(value, problem)
      assert(b:try_lock(key)):release()
    end
    local ok, problem = t:pcall(a.with, a, key, function() error() end)
    assert.is_false(ok)
    -- Lua 5.5 has a text for an error without a value.
    assert.are.equal(select(2, pcall(error)), problem)
    assert(b:try_lock(key)):release()
  end)

  -- Where nothing can yield across pcall, so not across xpcall either, this
  -- is a blocking program's.
  local only_where = (t.host.blocks or protect.call == pcall) and it
    or function() end

  only_where("the traceback of an error, on 5.4", function()
    local store, key = t:open(), t:key()
    local function deep_inside() error("here") end
    local _, trace = xpcall(function()
      store:with(key, function() deep_inside() return 1 end)
    end, debug.traceback)
    assert.is_truthy(trace:find("here", 1, true))
    if _VERSION == "Lua 5.4" then
      assert.is_truthy(trace:find("deep_inside", 1, true), trace)
      trace = t:wrap(function()
        return select(2, xpcall(store.with, debug.traceback, store, key,
          function() deep_inside() return 1 end))
      end)()
      assert.is_truthy(trace:find("deep_inside", 1, true), trace)
    end
    assert(store:try_lock(key)):release()
  end)

  timed("never unlocked", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease, ran = assert(a:lock(key)), false
    assert(b:ping()) -- connecting may take longer than the time-out
    local got, message, code = b:with(key, { timeout = 0.1 }, function()
      ran = true
    end)
    assert.is_nil(got)
    assert.are.equal("timeout", code)
    assert.is_truthy(message:find(key, 1, true))
    assert.are.equal("busy", select(3,
      b:with(key, { timeout = 0 }, function() ran = true end)))
    assert.is_false(ran)
    lease:release()
  end)

  it("a lease that was lost while fn ran", function()
    local store, key = t:open(), t:key()
    local opts = { ttl = 0.2, renew = false }
    local got, message, code, one, two, three = store:with(key, opts,
      function() t:sleep(0.4) return 1, nil, 3 end)
    assert.is_nil(got)
    assert.is_truthy(message:find("^lost: "), message)
    assert.are.equal("lost", code)
    assert.are.same({ 1, nil, 3 }, { one, two, three })
    local value = {}
    local ok, problem = t:pcall(store.with, store, key, opts, function()
      t:sleep(0.4)
      error(value)
    end)
    assert.is_false(ok)
    assert.are.equal(value, problem)
  end)

  it("a lease that was broken unnoticed while fn ran", function()
    local a, b, key = t:open(), t:open(), t:key()
    for _, opts in ipairs { { ttl = 2 }, { ttl = 2, min_hold = 30 } } do
      local got, _, code, result = a:with(key, opts, function()
        assert.is_true(b:break_lock(key))
        return 1
      end)
      assert.are.same({ nil, "lost", 1 }, { got, code, result })
    end
    t:expect_nothing_left(5)
  end)

  it("a lease that was lost before fn itself released it", function()
    local store, key = t:open(), t:key()
    for _, name in ipairs { "release", "release_later" } do
      local got, _, code, result = store:with(key, { ttl = 0.2, renew = false },
        function(lease)
          t:sleep(0.3)
          lease[name](lease)
          return 1
        end)
      assert.same({ nil, "lost", 1 }, { got, code, result })
    end
  end)

  it("a lease that fn itself released or detached", function()
    local store, key = t:open(), t:key()
    assert.are.same({ true, 1 }, { store:with(key, function(lease)
      lease:release()
      return 1
    end) })
    if t.subject.portable then
      local ok, text = store:with(key, function(lease)
        return assert(lease:detach())
      end)
      assert.is_true(ok)
      assert.are.equal("busy", select(3, store:try_lock(key)))
      assert.is_true(assert(store:attach(text)):release())
    end
  end)

  local only_nested = t.host.nests and it or function() end

  only_nested("yields out of fn, and values back in", function()
    local store, key = t:open(), t:key()
    local co = t:wrap(function(...)
      return "end", store:with(key, function(_, ...)
        local a, b = coroutine.yield("first", ...)
        return a, coroutine.yield("second", b)
      end, ...)
    end)
    assert.are.same({ "first", 1, 2 }, { co(1, 2) })
    assert.are.equal("busy", select(3, t:open():try_lock(key)))
    assert.are.same({ "second", "b" }, { co("a", "b") })
    assert.are.same({ "end", true, "a", "c" }, { co("c") })
    assert(store:try_lock(key)):release()
  end)

  only_nested("an error after a yield", function()
    local store, key, value = t:open(), t:key(), {}
    local co = t:wrap(function()
      store:with(key, function() coroutine.yield() error(value) end)
    end)
    co()
    local ok, problem = t:pcall(co)
    assert.is_false(ok)
    assert.are.equal(value, problem)
    assert(store:try_lock(key)):release()
  end)

  it("one inside another", function()
    local store, one, two = t:open(), t:key(), t:key()
    assert.are.same({ true, true, 5 }, { store:with(one, function()
      return store:with(two, function() return 5 end)
    end) })
    assert(store:try_lock(one)):release()
    assert(store:try_lock(two)):release()
  end)
end
