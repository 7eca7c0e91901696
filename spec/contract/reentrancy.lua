-- The same owner entering again, counted locally.

local assert = require "luassert"

return function(t, it, timed)
  timed("not by default: one waits for oneself", function()
    local store, key = t:open(), t:key()
    local lease = assert(store:lock(key))
    assert.are.equal("busy", select(3, store:try_lock(key)))
    assert.are.equal("timeout",
      select(3, store:lock(key, { timeout = 0.1 })))
    lease:release()
  end)

  it("holds that nest, and end with the last handle", function()
    local a, b, key = t:open(), t:open(), t:key()
    local mutex = assert(a:mutex(key, { reentrant = true }))
    local outer = assert(mutex:acquire())
    local inner = assert(mutex:try_acquire())
    assert.are.equal(outer.fence, inner.fence)
    assert.are_not.equal(outer, inner)
    assert.is_true(inner:release())
    assert.is_false(inner:held())
    assert.is_true(outer:held())
    assert.are.equal("busy", select(3, b:try_lock(key)))
    inner = assert(mutex:acquire())
    assert.is_true(outer:release()) -- in any order
    assert.is_true(inner:held())
    assert.are.equal("busy", select(3, b:try_lock(key)))
    assert.is_true(inner:release())
    assert.is_true(inner:release())
    assert(b:try_lock(key)):release()
    t:expect_nothing_left()
  end)

  it("holds that nest, which cannot be detached", function()
    local a, b, key = t:open(), t:open(), t:key()
    local mutex = assert(a:mutex(key, { reentrant = true }))
    local outer, inner = assert(mutex:acquire()), assert(mutex:acquire())
    for _, lease in ipairs { inner, outer } do
      local text, message, code = lease:detach()
      assert.is_nil(text)
      assert.are.equal("unsupported", code, message)
      assert.is_true(lease:held())
    end
    assert.is_true(inner:release())
    if t.subject.portable then
      outer = assert(b:attach(assert(outer:detach())))
    end
    assert.is_true(outer:release())
    t:expect_nothing_left()
  end)

  it("matches by key and owner, not by object", function()
    local store, key = t:open(), t:key()
    local nested = { reentrant = true }
    local outer = assert(store:lock(key, nested))
    local inner = assert(assert(store:mutex(key, nested)):acquire())
    local third = assert(store:try_lock(key, nested))
    assert.are.equal("busy", select(3, store:try_lock(key)))
    assert.are.equal("busy", select(3, store:try_lock(key,
      { reentrant = true, owner = "somebody else" })))
    for _, lease in ipairs { outer, third, inner } do
      assert.is_true(lease:release())
    end
    assert(store:try_lock(key)):release()
  end)

  it("not across coroutines, unless the owner is named", function()
    local store, key = t:open(), t:key()
    local outer = assert(store:lock(key, { reentrant = true }))
    local code = t:wrap(function()
      return select(3, store:try_lock(key, { reentrant = true }))
    end)()
    assert.are.equal("busy", code)
    outer:release()
    local named = { reentrant = true, owner = "job" }
    outer = assert(store:lock(key, named))
    assert.are.equal("job", outer.owner)
    local inner = assert(t:wrap(function()
      return store:try_lock(key, named)
    end)())
    inner:release()
    outer:release()
  end)

  local only_nested = t.host.nests and it or function() end

  only_nested("with inside with, yields and all", function()
    local store, key = t:open(), t:key()
    local nested = { reentrant = true, timeout = 10 }
    local function dive(depth)
      if depth == 0 then
        return coroutine.yield("deep")
      end
      return select(2, assert(store:with(key, nested, function()
        return dive(depth - 1)
      end)))
    end
    local co = t:wrap(function() return dive(5) end)
    assert.are.equal("deep", co())
    assert.are.equal("busy", select(3,
      store:try_lock(key, { reentrant = true })))
    assert.are.equal("back", co("back"))
    assert(store:try_lock(key)):release()
  end)

  it("a hold that was lost, which does not count", function()
    local store, key = t:open(), t:key()
    local lost = assert(store:lock(key,
      { reentrant = true, ttl = 0.2, renew = false }))
    t:sleep(0.4)
    assert.is_false(lost:held())
    local again = assert(store:lock(key, { reentrant = true, timeout = 5 }))
    assert.is_true(again.fence > lost.fence)
    assert.are.equal("lost", select(3, lost:release()))
    assert.is_true(again:held())
    assert.is_true(again:release())
  end)

  it("a hold that was lost: every handle's release says so", function()
    local store, key = t:open(), t:key()
    local opts = { reentrant = true, ttl = 0.2, renew = false }
    local outer = assert(store:lock(key, opts))
    local inner = assert(store:lock(key, opts))
    t:sleep(0.4)
    for _, lease in ipairs { inner, outer, inner } do
      local ok, message, code = lease:release()
      assert.is_nil(ok)
      assert.are.equal("lost", code)
      assert.is_truthy(message:find("^lost: .*" .. key), message)
    end
    local got, _, code, result
    got, _, code, result = store:with(key, opts, function()
      got, _, code, result = store:with(key, opts, function()
        t:sleep(0.4)
        return "inner"
      end)
      assert.is_nil(got)
      assert.are.equal("lost", code)
      assert.are.equal("inner", result)
      return "outer"
    end)
    assert.is_nil(got)
    assert.are.equal("lost", code)
    assert.are.equal("outer", result)
    t:expect_nothing_left()
  end)

  it("handles that are collected", function()
    local a, b, key = t:open(), t:open(), t:key()
    local outer = assert(a:lock(key, { reentrant = true }))
    local function nest() assert(a:lock(key, { reentrant = true })) end
    for _ = 1, 3 do nest() end
    collectgarbage()
    collectgarbage()
    assert.is_true(outer:held())
    assert.are.equal("busy", select(3, b:try_lock(key)))
    assert.is_true(outer:release())
    assert(b:lock(key, { timeout = 5 })):release()
    t:expect_nothing_left()
  end)

  it("many keys, many owners", function()
    local store, prefix = t:open(), t:key()
    for i = 1, 150 do
      local opts = { reentrant = true, owner = "owner " .. i % 7 }
      local key = prefix .. i % 40
      local outer = assert(store:lock(key, opts))
      local inner = assert(store:lock(key, opts))
      outer:release()
      inner:release()
    end
    t:expect_nothing_left()
  end)
end
