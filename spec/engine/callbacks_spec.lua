-- Callbacks of leases in plain Lua, in processes of their own: a release calls
-- those whose event it found, and an error that no on_event takes is shown
-- once.
local process = require "spec.support.process"
local server = require "spec.support.server"
local steady = require "spec.support.steady"

local URL = assert(os.getenv("DLOCK_TEST_REDIS"), "run `make test`")

local count = 0

describe("a callback", function()
  local dir

  local function set_up() dir = server.new_dir() end

  local function tear_down()
    process.close_all()
    server.remove_dir(dir)
  end

  local timed = steady(set_up, tear_down)

  -- What the program prints, and writes to standard error.
  local function run(url, program)
    count = count + 1
    local path = dir .. "/program.lua"
    server.write_file(path, ([[
      local dlock = require "dlock"
      local core = require "dlock.core"
      local key = %q
      local function open(opts)
        opts = opts or {}
        opts.url = %q
        return assert(dlock.open(opts))
      end
      local function pass(seconds)
        local ended = core.now() + seconds
        while core.now() < ended do end
      end
      local store = open()
    ]]):format("callbacks" .. count .. server.new_dir():gsub("%W", ""), url)
      .. program)
    local status, out, err = process.run { file = path, timeout = 60 }
    assert.equal(0, status, err)
    return out, err
  end

  for _, name in ipairs { "redis", "file" } do
    local function url()
      return name == "redis" and URL or "file://" .. dir .. "/locks"
    end

    it("runs at the release after the lease was lost, " .. name, function()
      assert.equal("lost lost 0.0\ntrue\n", (run(url(), [[
        local lease = assert(store:lock(key, { ttl = 0.2, renew = false }))
        lease:on_lost(function(l, reason)
          io.write(reason:match("^%w+"), " ")
          io.write("lost ", ("%.1f"):format(l:remaining()), "\n")
        end)
        pass(0.3)
        local _, _, code = lease:release()
        print(code == "lost" and select(3, lease:release()) == "lost")
      ]])))
    end)

    it("runs at the release after the lock was broken, " .. name, function()
      assert.equal("told\nlost\n", (run(url(), [[
        local lease = assert(store:lock(key))
        lease:on_lost(function() print("told") end)
        local admin = open()
        assert(admin:break_lock(key))
        print((select(3, lease:release())))
      ]])))
    end)

    it("runs in a wait for a lock of another store, " .. name, function()
      assert.equal("told\ntrue\n", (run(url(), [[
        local other, told = open(), false
        local lease = assert(store:lock(key, { ttl = 0.2, renew = false }))
        lease:on_lost(function() told = true; print("told") end)
        local mutex = other:mutex(key .. "-other")
        local ended = core.now() + 10
        repeat
          assert(assert(mutex:acquire()):release())
        until told or core.now() > ended
        print(told)
      ]])))
    end)

    it("on_event runs in a wait for another store, " .. name, function()
      assert.equal("lost\ntrue\n", (run(url(), [[
        local told = false
        local other = open { on_event = function(event)
          if event.kind == "lost" then told = true; print(event.kind) end
        end }
        local lease = assert(other:lock(key, { ttl = 0.2, renew = false }))
        local ended = core.now() + 10
        repeat
          assert(store:ping())
        until told or core.now() > ended
        print(told and not lease:held())
      ]])))
    end)

    it("does not run when the release went well, " .. name, function()
      assert.equal("true\n", (run(url(), [[
        local lease = assert(store:lock(key))
        lease:on_lost(function() print("told") end)
        lease:on_revoke(function() print("asked") end)
        print(lease:release())
        assert(store:ping())
      ]])))
    end)
  end

  timed("hears at the release that somebody asked", function()
    assert.equal("asked\ntrue\n", (run(URL, [[
      local lease = assert(store:lock(key, { ttl = 2 }))
      lease:on_revoke(function() print("asked") end)
      assert(open():revoke(key))
      repeat pass(0.01) -- its next renewal says so
      until lease:revoked() or not lease:held()
      print(lease:release())
    ]])))
  end)

  it("is run by its own event loop, not by a wait beside that", function()
    assert.equal("waited\ntold\n", (run(URL, [[
      local uv = require "luv"
      local beside = open { host = "blocking" }
      local looped = open { host = "luv" }
      coroutine.wrap(function()
        local lease = assert(looped:lock(key, { ttl = 0.2, renew = false }))
        lease:on_lost(function() print("told") end)
        repeat until not lease:held()
        pass(0.3) -- for the thread that sees the loss
        assert(beside:ping())
        print("waited")
        assert(looped:ping())
      end)()
      uv.run()
    ]])))
  end)

  -- The engine keeps a thousand events.
  it("runs for each of more losses than the engine has events for", function()
    assert.equal("1100\n", (run(URL, [[
      local told, last = 0, nil
      local function tell() told = told + 1 end
      local leases = {}
      for i = 1, 1100 do
        last = assert(store:lock(key .. i, { ttl = 3, renew = false }))
        last:on_lost(tell)
        leases[i] = last
      end
      repeat until not last:held()
      pass(0.3) -- for the thread that sees the losses
      local ended = core.now() + 10
      repeat store:ping() until told >= #leases or core.now() > ended
      print(told)
    ]])))
  end)

  it("runs at the end of a with whose lease was lost", function()
    assert.equal("told\nlost\n", (run(URL, [[
      local _, _, code = store:with(key, { ttl = 0.2, renew = false },
        function(lease)
          lease:on_lost(function() print("told") end)
          pass(0.3)
        end)
      print(code)
    ]])))
  end)

  it("that fails is shown once if there is no on_event", function()
    local out, err = run(URL, [[
      local lease = assert(store:lock(key, { ttl = 0.2, renew = false }))
      lease:on_lost(function() error("the callback failed") end)
      pass(0.3)
      assert(store:ping())
      lease:release()
      store:close()
      print("ended")
    ]])
    assert.equal("ended\n", out)
    assert.equal(1, select(2, err:gsub("the callback failed", "")))
    assert.matches("^dlock: error in a callback of on_lost: ", err)
  end)

  it("that fails is reported to on_event, and then is not shown", function()
    local out, err = run(URL, [[
      store = open { on_event = function(event)
        if event.kind == "callback" then print(event.message) end
      end }
      local lease = assert(store:lock(key, { ttl = 0.2, renew = false }))
      lease:on_lost(function() error("the callback failed") end)
      pass(0.3)
      lease:release()
    ]])
    assert.equal("", err)
    assert.matches("the callback failed", out)
  end)

  it("on_event itself is shown when it fails", function()
    local _, err = run(URL, [[
      store = open { on_event = function() error("on_event failed") end }
      local lease = assert(store:lock(key, { ttl = 0.2, renew = false }))
      pass(0.3)
      assert(store:ping())
      lease:release()
    ]])
    assert.matches("^dlock: error in on_event: .*on_event failed", err)
  end)

  local BAD = {
    { "fails", "function() error('deep') end" },
    { "gives no string", "function() return nil end" },
  }

  for _, bad in ipairs(BAD) do
    it("whose error's __tostring " .. bad[1] .. " reaches no call", function()
      local out, err = run(URL, ([[
        local problem = setmetatable({}, { __tostring = %s })
        local function fail() error(problem) end
        for i, on_event in ipairs { fail, false } do
          store = open { on_event = on_event or nil }
          local lease = assert(store:lock(key, { ttl = 0.2, renew = false }))
          lease:on_lost(fail)
          pass(0.3)
          print(pcall(store.ping, store))
          local other = assert(store:lock(key .. i))
          print(other:release())
        end
      ]]):format(bad[2]))
      assert.is_nil(out:find("false", 1, true), out)
      assert.matches("error in a callback of on_lost: an object .a table", err)
      assert.matches("error in on_event: an object .a table", err)
    end)
  end
end)
