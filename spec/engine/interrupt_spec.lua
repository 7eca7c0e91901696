-- Errors that a debug hook raises inside of dlock, at any place: Ctrl-C does.
local dlock = require "dlock"
local server = require "spec.support.server"

describe("a call that was interrupted anywhere", function()
  local dir, store, other

  before_each(function()
    dir = server.new_dir()
    -- Between dlock's return and the program's variable a lease is lost to
    -- both: it ends at its ttl.
    store = assert(dlock.open { url = "file://" .. dir .. "/locks", ttl = 0.2,
      on_event = function() end })
    other = assert(dlock.open("file://" .. dir .. "/locks"))
  end)

  after_each(function()
    debug.sethook()
    store:close()
    other:close()
    server.remove_dir(dir)
  end)

  local function interrupt()
    debug.sethook()
    error("interrupted", 0)
  end

  -- Calls fn(step), which is interrupted after so many instructions, for
  -- each number of them (or each `stride`th) until it comes to its end;
  -- between(step) after each.
  local function at_each_step(fn, between, stride)
    local step, interrupted = 0
    repeat
      step = step + (stride or 1)
      interrupted = not pcall(function()
        debug.sethook(interrupt, "", step)
        fn(step)
        debug.sethook()
      end)
      between(step)
    until not interrupted or step > 2000
    assert.is_true(step > 20 and step <= 2000, step)
  end

  it("does not end a later wait of another coroutine", function()
    local held = assert(other:lock("held"))
    local one, canceller
    local waiting = assert(store:mutex("held", { timeout = 0.001 }))
    local function check()
      debug.sethook(function()
        if one then one:cancel() end
        if canceller then canceller:cancel() end
      end, "", 1)
      local _, message, code = waiting:acquire()
      debug.sethook()
      assert.are.equal("timeout", code, message)
    end
    collectgarbage("stop")
    at_each_step(function(step)
      one = store:mutex("free" .. step)
      assert(one:acquire())
    end, check)
    at_each_step(function(step)
      canceller = dlock.canceller()
      one = store:mutex("unheld" .. step)
      assert(one:acquire { cancel = canceller })
    end, check)
    collectgarbage("restart")
    held:release()
  end)

  local nested = { reentrant = true }
  local calls = {
    acquire = function(key) assert(store:mutex(key):acquire()) end,
    ["with, one in another,"] = function(key)
      assert(store:with(key, nested, function()
        return assert(store:with(key, nested, function() end))
      end))
    end,
    ["dlock.all"] = function(key)
      local both = dlock.all { store:mutex(key), store:mutex(key .. "b") }
      assert(both:acquire())
    end,
  }
  for name, call in pairs(calls) do
    it("gives back its lease once collected: " .. name, function()
      local key = "none"
      at_each_step(function(step)
        key = name .. step
        call(key)
      end, function()
        collectgarbage()
        collectgarbage()
        assert(other:lock(key, { timeout = 5 })):release()
        assert(other:lock(key .. "b", { timeout = 5 })):release()
      end, 23)
    end)
  end

  it("leaves a release that can be finished", function()
    local lease
    at_each_step(function(step)
      lease = lease or assert(store:lock("released" .. step))
      assert(lease:release())
    end, function(step)
      if not lease then return end
      local key = lease.key
      assert.is_true(lease:release(), step)
      assert.is_true(lease:release(), step)
      assert.is_false(lease:held())
      assert(other:try_lock(key)):release()
      lease = store:lock("released" .. step + 1)
    end)
  end)
end)
