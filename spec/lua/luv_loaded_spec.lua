-- luv runs what it is given in the coroutine that loaded it first, for good: a
-- call that waits in that one is never gone on with.
local process = require "spec.support.process"

local URL = assert(os.getenv("DLOCK_TEST_REDIS"), "run `make test`")

-- What a tested process has besides loads luv, and so does LUA_INIT where the
-- contract ran before; but a sanitizer has to be there.
local function run(script)
  return process.run { script = script, args = { URL }, tested = false,
    env = { LD_PRELOAD = os.getenv("DLOCK_TEST_RUNTIME"), LUA_INIT = false },
    timeout = 20 }
end

describe("host luv, when luv is loaded in a coroutine,", function()
  it("does not load it there", function()
    local status, out, err = run [[
      local dlock = require "dlock"
      local function open()
        return dlock.open { url = arg[1], host = "luv" }
      end
      coroutine.wrap(function()
        local _, message, code = open()
        print(code, message)
        print(package.loaded.luv)
      end)()
      assert(open()):close()
      coroutine.wrap(function() -- it is loaded now
        local store = assert(open())
        print(store:ping() > 0)
        store:close()
      end)()
      require("luv").run() ]]
    assert.equal("", err)
    assert.equal(0, status)
    assert.matches('^unsupported\tunsupported: [^\n]*require "luv" in the'
      .. ' main chunk[^\n]*\nnil\ntrue\n$', out)
  end)

  -- LuaJIT's compiler, when it gives a trace up in a callback, leaves the
  -- coroutine that the callback runs in as one that cannot be resumed.
  it("says that nothing can wait in that coroutine", function()
    local status, out, err = run [[
      if jit then jit.off() end
      local function ping()
        local store = assert(require("dlock").open { url = arg[1],
          host = "luv" })
        print(store:ping() > 0)
        store:close()
      end
      local loads = coroutine.create(function()
        require "luv"
        coroutine.wrap(ping)() -- another one can
        coroutine.yield()
        ping()
      end)
      assert(coroutine.resume(loads))
      require("luv").run()
      io.stdout:flush()
      assert(coroutine.resume(loads))
      require("luv").run()
      print "end" ]]
    assert.equal("true\n", out, err)
    assert.matches('dlock: a coroutine that waits cannot be gone on with.*'
      .. 'require "luv" in the main chunk', err)
    assert.is_true(status ~= 0)
  end)
end)
