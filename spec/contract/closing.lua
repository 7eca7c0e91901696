-- The end of a store.

local assert = require "luassert"
local dlock = require "dlock"
local leaks = require "spec.support.leaks"

return function(t, it)
  it("is idempotent", function()
    local store = t:open()
    assert(store:ping())
    assert.is_true(store:close())
    assert.is_true(store:close())
    assert.is_true(t:open():close()) -- never used
  end)

  if _VERSION == "Lua 5.4" then
    it("comes with the end of a to-be-closed variable", function()
      local a, b, key = t:open(), t:open(), t:key()
      assert(load([[
        local store, key = ...
        local closing <close> = store
        assert(closing:lock(key))
      ]]))(a, key)
      assert(b:try_lock(key)):release()
      assert.are.equal("closed", select(3, a:ping()))
    end)
  end

  it("releases leases", function()
    local a, b, one, two = t:open(), t:open(), t:key(), t:key()
    local leases = { assert(a:lock(one)), assert(a:lock(two)) }
    assert.is_true(a:close())
    for _, lease in ipairs(leases) do
      assert.is_false(lease:held())
      lease:release() -- whatever it says, it must not fail
    end
    assert(b:try_lock(one)):release()
    assert(b:try_lock(two)):release()
    t:expect_nothing_left()
  end)

  it("releases leases, and each says so, whatever was called", function()
    local store, leases = t:open(), {}
    for i = 1, 2 do leases[i] = assert(store:lock(t:key())) end
    assert.is_true(store:close())
    assert.is_true(leases[1]:release_later())
    for _, lease in ipairs(leases) do
      for _ = 1, 2 do
        local ok, message, code = lease:release()
        assert.is_nil(ok)
        assert.are.equal("closed", code, message)
      end
      assert.matches(" released$", tostring(lease))
    end
    t:expect_nothing_left()
  end)

  it("releases those of dlock.all, which says so, whatever was called",
  function()
    local store = t:open()
    local whole = assert(dlock.all { assert(store:mutex(t:key())),
      assert(store:mutex(t:key())) }:acquire())
    assert.is_true(store:close())
    for _ = 1, 2 do
      assert.is_false(whole:held())
      assert.matches(" released$", tostring(whole))
      assert.are.equal("closed", select(3, whole:release()))
      assert.is_true(whole:release_later())
    end
    t:expect_nothing_left()
  end)

  it("leaves no thread and no descriptor", function()
    local function use()
      local store = t:open()
      assert(store:lock(t:key()))
      assert(assert(store:lock(t:key())):release())
      assert.is_true(store:close())
    end
    use() -- what is made once for a process is there now
    local before = leaks.snapshot()
    for _ = 1, 3 do use() end
    assert.are.same({}, leaks.since(before, 3))
  end)

  it("was open with descriptors of no concern to programs it starts", function()
    local before = leaks.snapshot()
    local store, key, peer = t:open(), t:key(), t:peer()
    local lease = assert(store:lock(key))
    peer:start("l = assert(store:lock('%s'))", key)
    t:queued(key, 1)
    local inherited = leaks.inherited(before)
    lease:release()
    peer:finish()
    peer:run("l:release()")
    -- The ZooKeeper library's own: a connection and a pipe.
    assert.is_true(#inherited <= (t.subject.inherits or 0),
      table.concat(inherited, ", "))
  end)

  it("makes every call say closed", function()
    local store, key = t:open(), t:key()
    local mutex = assert(store:mutex(key))
    assert(mutex:acquire()):release()
    local lease = assert(store:lock(key))
    store:close()
    local never = function() error("ran") end
    for name, call in pairs {
      lock = function() return store:lock(key) end,
      try_lock = function() return store:try_lock(key) end,
      with = function() return store:with(key, never) end,
      once = function() return store:once(key, never) end,
      once_per = function() return store:once_per(key, 1, never) end,
      ping = function() return store:ping() end,
      list = function() return store:list(key) end,
      inspect = function() return store:inspect(key) end,
      break_lock = function() return store:break_lock(key) end,
      revoke = function() return store:revoke(key) end,
      acquire = function() return mutex:acquire() end,
      locked = function() return mutex:locked() end,
      leader = function() return store:election(key):leader() end,
      release = function() return lease:release() end,
      extend = function() return lease:extend() end,
      attach = function() return store:attach("x") end,
    } do
      local got, message, code = call()
      assert.is_nil(got, name)
      assert.are.equal("closed", code, name)
      local about = name == "ping" or name == "list" or name == "attach"
      assert.matches(about and "^closed: the store " or "^closed: '" .. key
        .. "': the store ", message, 1, nil, name .. ": " .. message)
    end
    assert.is_true(mutex:cancel())
  end)

  it("wakes the waiters", function()
    local a, key, start, got, message, code = t:open(), t:key()
    local lease = assert(a:lock(key))
    for _ = 1, 5 do -- a slow machine may close it before the wait begins
      local b, stop = t:open(), nil
      stop = t:later(0.1, function()
        stop()
        b:close()
      end)
      start = t:now()
      got, message, code = b:lock(key, { timeout = 20 })
      if code ~= "closed" then break end
    end
    assert.is_nil(got)
    assert.are.equal("cancelled", code, message)
    assert.is_true(t:now() - start < 3)
    assert.is_true(lease:release())
    t:expect_nothing_left()
  end)

  it("comes by itself when the program ends", function()
    local store, key, peer = t:open(), t:key(), t:peer()
    peer:run("l = assert(store:lock('%s', { ttl = 60 }))", key)
    peer.process:close_stdin()
    assert.are.equal(0, (peer.process:wait()))
    assert(store:try_lock(key)):release()
    t:expect_nothing_left()
  end)
end
