-- Leases that the collector finds while they are held: a program that forgot
-- one may still be at work under it, so it is not released.
local dlock = require "dlock"
local leaks = require "spec.support.leaks"
local process = require "spec.support.process"
local server = require "spec.support.server"

local function collect()
  collectgarbage()
  collectgarbage()
end

describe("a lease that is collected while it is held", function()
  local dir, url, other

  before_each(function()
    dir = server.new_dir()
    url = "file://" .. dir .. "/locks"
    other = assert(dlock.open(url))
  end)

  after_each(function()
    other:close()
    server.remove_dir(dir)
  end)

  local function run(script)
    local status, out, err = process.run { script = [[
      local dlock = require "dlock"
      local store = assert(dlock.open(arg[1]))
      local function collect() collectgarbage() collectgarbage() end
    ]] .. script, args = { url } }
    assert.equal(0, status, err)
    return out, err
  end

  local LINE = "dlock: dropped: the lease on '%s' was collected [^\n]*\n"

  it("is told in one line of standard error, without on_event", function()
    local out, err = run [[
      if store:try_lock("job") then
        collect()
        collect()
        print(select(3, dlock.open(arg[1]):try_lock("job")))
      end
    ]]
    assert.equal("busy\n", out)
    assert.matches("^" .. LINE:format("job") .. "$", err)
  end)

  it("is told for each lock of dlock.all", function()
    local _, err = run [[
      assert(dlock.all { store:mutex("a"), store:mutex("b") }:acquire())
      collect()
    ]]
    assert.matches(LINE:format("a"), err)
    assert.matches(LINE:format("b"), err)
  end)

  it("is told of a lease of dlock.fallback", function()
    local _, err = run [[
      local one = assert(dlock.fallback { store:mutex("a"),
        dlock.open(arg[1] .. "2"):mutex("a") })
      assert(one:acquire())
      collect()
    ]]
    assert.matches("^" .. LINE:format("a") .. "$", err)
  end)

  for ending, code in pairs { ["the end of the program"] = "",
      ["os.exit, which closes the state"] = "os.exit(0, true)" } do
    it("is nothing at " .. ending .. ", and releases it", function()
      local _, err = run([[
        KEPT = assert(store:lock("job"))
        assert(store:lock("forgotten"))
      ]] .. code)
      assert.equal("", err)
      assert(other:try_lock("job")):release()
      assert(other:try_lock("forgotten")):release()
    end)
  end

  it("is nothing when it was released, or its store closed", function()
    local _, err = run [[
      assert(store:lock("a")):release()
      assert(store:lock("b")):release_later()
      assert(store:with("c", function() end))
      assert(store:lock("d"))
      assert(store:close())
      collect()
    ]]
    assert.equal("", err)
  end)

  it("keeps its lock although its store was collected too", function()
    local before, events = leaks.snapshot(), {}
    local function forget()
      local store = assert(dlock.open { url = url, ttl = 2,
        on_event = function(event) events[#events + 1] = event.kind end })
      assert(store:lock("job"))
    end
    forget()
    collect()
    assert.equal("busy", select(3, other:try_lock("job")))
    assert.same({ "dropped" }, events)
    assert(other:lock("job")):release()
    other:close()
    dlock.open(url)
    collect()
    dlock.open(url) -- looks for what is over
    assert.same({}, leaks.since(before, 5))
  end)

  it("is told at once while a coroutine waits", function()
    local kept = assert(other:lock("kept"))
    local out = run [[
      local told, stop, waits = {}, dlock.canceller(), false
      local store = assert(dlock.open { url = arg[1], host = "luv", ttl = 60,
        on_event = function(event)
          told[#told + 1] = event.kind
          stop:cancel()
        end })
      coroutine.wrap(function()
        assert(store:lock("job"))
        waits = true
        print(select(3, store:lock("kept", { timeout = 5, cancel = stop })),
          table.concat(told, " "))
        store:close()
      end)()
      coroutine.wrap(function()
        repeat store:try_lock("kept") until waits
        collect()
      end)()
      require("luv").run()
    ]]
    assert.equal("cancelled\tdropped\n", out)
    assert(kept:release())
  end)

  it("is told before the loss of its lock", function()
    local out = run(([[
      local store = assert(dlock.open { url = arg[1], ttl = 0.2,
        on_event = function(event) print(event.kind) end })
      assert(store:lock("job"))
      collect()
      -- (Lua 5.1 sets no arg for -e.)
      local WAIT = "assert(require('dlock').open(os.getenv('AT')):lock('job'))"
      os.execute(('AT="%%s" %s -e "%%s" </dev/null'):format(arg[1], WAIT))
      assert(store:ping())
    ]]):format(process.lua_in_shell))
    assert.equal("dropped\nlost\n", out)
  end)
end)
