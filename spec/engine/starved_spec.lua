-- dlock's C code without memory: each allocation of each call fails in turn,
-- alone and with all behind it, on every store and every Lua (spec/c/starve.c
-- puts the failures in). The call raises "not enough memory", or answers
-- unavailable and why; nothing crashes, and as soon as there is memory the same
-- call works and the key is free. What Lua allocates is in scarce_spec.

local context = require "spec.contract.context"
local library = require "spec.support.library"
local lot = require "spec.support.lot"
local process = require "spec.support.process"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local subjects = require "spec.contract.subjects"

local LIMIT = 200 -- seconds for one store

-- Each Lua does half of the stores; of these a part with all allocations behind
-- it failing, where what cannot even be taken back ends with its ttl each time.
local is_mine = lot.draw("stores without memory", 2)
local is_lasting = lot.draw("stores without any memory", 3)

local SCRIPT = [[
  local url, key, library, lasting = arg[1], arg[2], arg[3], arg[4]
  local plain = arg[5] == "plain"
  local calls = require "spec.support.calls"
  local core = require "dlock.core"
  local dlock = require "dlock"
  local uv = require "luv"

  local begin = assert(package.loadlib(library, "starve_begin"))
  local arm = assert(package.loadlib(library, "starve_arm"))
  local disarm = assert(package.loadlib(library, "starve_disarm"))
  uv.os_setenv("STARVE_LASTING", lasting)

  local options = { url = url, session_timeout = 10, ttl = 0.1, timeout = 0.1,
    io_timeout = 0.3, connect_timeout = 2 }

  -- When the lease was asked for that a call is about; else it asks by itself.
  local asked = math.huge

  -- It works, and is said to be scarce memory when it does not. What went on
  -- behind an earlier call's back may still have the key. A process that stands
  -- still for a whole ttl loses what it holds.
  local function check(name, n, since, ok, value, message, code)
    local scarce = not ok and tostring(value):find("memory")
      or code == "unavailable" or code == "timeout" or code == "busy"
      or code == "lost" and core.now() - since > 0.08
    if not (ok and value) and not scarce then
      print(name, n, tostring(value), tostring(message))
    end
  end

  local function works(name, n, run)
    local limit = core.now() + 15
    local value, message
    repeat
      if message then uv.sleep(5) end
      value, message = run()
    until value or core.now() > limit
    if not value then print(name, n, "afterwards", tostring(message)) end
  end

  -- Runs it with memory that ends at each allocation in turn, until there is
  -- enough. Gives how many there are.
  local function starve(name, run, between)
    for n = 1, 2000 do
      uv.os_setenv("STARVE_AT", tostring(n))
      local since = math.min(asked, core.now())
      arm()
      local ok, value, message, code = pcall(run)
      disarm()
      check(name, n, since, ok, value, message, code)
      if os.getenv("STARVE_FAILED") == "0" then
        return n
      end
      between(n)
    end
    error(name .. " never has enough")
  end

  local function opened()
    return assert(dlock.open(options))
  end

  -- A store that is used for the first time, and closed.
  local function life()
    local store, message, code = dlock.open(options)
    if not store then return nil, message, code end
    local ok, problem, reason = store:ping()
    disarm()
    local closed, left = store:close(5)
    if not closed then print("close", left) end
    return ok, problem, reason
  end

  local first = opened() -- its library has to be there for begin
  assert(first:ping())
  begin()
  local n = starve("life", life, function(n) works("life", n, life) end)
  assert(n > 5, n)

  local store, total = opened(), 0
  works("ping", 0, function() return store:ping() end)
  for _, one in ipairs(calls.new(dlock, key, plain)) do
    total = total + starve(one.name, function() return one.run(store) end,
      function(n)
        works(one.name, n, function() return one.run(store) end)
      end)
  end
  assert(total > 25, total)

  -- A lease may be lost on the way, when its renewal had no memory either.
  for _, one in ipairs(calls.of_lease(disarm, plain)) do
    local lease
    local function held()
      if lease then lease:release(5) end
      lease = store:lock(key, { timeout = 10 })
      return lease
    end
    works(one.name, 0, held)
    starve(one.name, function()
      local new, message, code = one.run(store, lease)
      lease = new or lease
      return new or code == "lost" or code == "unsupported", message, code
    end, function(n) works(one.name, n, held) end)
    works(one.name, 0, function() return lease:release(5) end)
  end

  -- A release is never for want of memory left undone for ever.
  local function again()
    asked = core.now()
    return store:lock(key, { timeout = 10 })
  end

  local lease = assert(again())
  starve("release", function() return lease:release() end,
    function()
      lease = again()
      if not lease then print "the key is not free" end
    end)

  -- Nor does a holder in the way of a wait matter.
  local other = opened()
  lease = assert(other:lock(key, { timeout = 10, ttl = 30 }))
  starve("wait", function()
    local got, message, code = store:lock(key, { timeout = 0.02 })
    if got then print "two hold it" end
    return code == "timeout", message, code
  end, function() end)
  assert(lease:release(5))
  works("lock", 0, function()
    local got, message = again()
    return got and got:release(5), message
  end)

  for _, one in ipairs { first, store, other } do
    local ok, message = one:close(10)
    if not ok then print(message) end
  end
  print "done"
]]

for i, subject in ipairs(subjects) do
  local about = is_mine(i) and describe or function() end
  about("C code without memory, on " .. subject.name .. ",", function()
    local t = context.new(subject)
    local dir

    local function set_up()
      dir = server.new_dir()
    end

    local function tear_down()
      process.close_all()
      server.remove_dir(dir)
      t:clean_up()
    end

    local timed = steady(set_up, tear_down)

    timed("says so, and leaves nothing behind", function()
      -- Lua unloads it at its end, and dlock allocates at the process's exit.
      local starve = library.build(dir, "starve",
        server.read_file("spec/c/starve.c"), { "-Wl,-z,nodelete" })
      local url = subject.name == "file" and "file://" .. dir .. "/locks"
        or subject.url()
      local running = {}
      local most = is_lasting(i) and 1 or 0
      for lasting = 0, most do
        running[lasting] = process.spawn { script = SCRIPT, stderr = "pipe",
          args = { url, t:key(), starve, lasting,
            subject.plain and "plain" },
          env = { LD_BIND_NOW = "1" } }
      end
      for lasting = 0, most do
        local status, signal = running[lasting]:wait(LIMIT)
        assert.are.equal("done\n0 0", running[lasting].out
          .. running[lasting].err .. ("%s %s"):format(status, signal))
      end
      t:expect_nothing_left()
    end)
  end)
end
