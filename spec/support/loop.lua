-- Lets a spec wait for an event and go on: busted's tests are plain blocking
-- code, libuv's are not. Every helper here waits through this one function, so
-- that every wait has a deadline and none of them sleeps and looks again.

local uv = require "luv"

local loop = {}

--- How much longer than plainly a step may take under a sanitizer, which starts
--- each process with a runtime. (Plainly, late is wrong: a wake-up was lost and
--- found again.)
loop.patience = os.getenv("DLOCK_TEST_SANITIZER") and 6 or 1

-- Writing to a helper or server that is gone is an error code, not our end.
-- (That dlock needs no such thing is shown by specs in processes of their own.)
local pipe_signal = uv.new_signal()
pipe_signal:start("sigpipe", function() end)
pipe_signal:unref()

-- uv.run("once") first runs the timers that are due and then blocks until
-- something else happens: a timer that becomes due just before it would be
-- noticed too late. So a caller that is about to block checks whether one ran.
local due, guard

local function run_once(mode)
  if mode == "nowait" then
    uv.run("nowait")
    return
  end
  if not guard then
    guard = uv.new_prepare()
    guard:start(function()
      if due and uv.now() >= due then
        uv.stop()
      end
    end)
    guard:unref()
  end
  uv.update_time()
  local ms = uv.backend_timeout()
  due = ms >= 0 and uv.now() + ms
  uv.run("once")
  due = nil
end

--- Lets the loop go on for one turn ("once": blocking, or "nowait").
--- Exchanged while the one who waits is itself run by the loop, which must not
--- be run inside of itself.
loop.turn = run_once

loop.run_once = run_once

--- Runs the default loop until done() is truthy or `timeout` seconds passed.
--- Returns what done() returned.
function loop.wait(timeout, done)
  local timer, late = uv.new_timer(), false
  uv.update_time()
  timer:start(math.ceil(timeout * 1000), 0, function()
    late = true
  end)
  local ok, result = pcall(done)
  while ok and not result and not late do
    loop.turn("once")
    ok, result = pcall(done)
  end
  loop.close(timer)
  if not ok then
    error(result, 0)
  end
  return result
end

--- Waits for what no event tells of: looks now and then, and fails, naming
--- `what`, if check() has not come true within `seconds`.
function loop.eventually(what, seconds, check)
  local timer = uv.new_timer()
  timer:start(5, 5, function() end)
  local ok = loop.wait(seconds, check)
  loop.close(timer)
  if not ok then
    error("never came true: " .. what, 2)
  end
end

--- Closes a handle, if there is one that is not closing yet, and lets libuv
--- finish that: luv crashes when Lua ends with a close under way. Not for use
--- inside a callback.
function loop.close(handle)
  if handle and not handle:is_closing() then
    handle:close()
    loop.turn("nowait")
  end
end

--- The environment for a child, as uv.spawn wants it: ours with `changes`
--- (name = value, or false to remove).
function loop.environment(changes)
  local all = uv.os_environ()
  for name, value in pairs(changes or {}) do
    all[name] = value or nil
  end
  local list = {}
  for name, value in pairs(all) do
    list[#list + 1] = name .. "=" .. value
  end
  return list
end

--- loop.wait for what no event tells of: looks every 2 ms.
function loop.look(timeout, done)
  local again = uv.new_timer()
  again:start(2, 2, function() end)
  local result = loop.wait(timeout, done)
  loop.close(again)
  return result
end

--- Runs fn in a coroutine of its own, and the loop until it is over.
function loop.in_coroutine(fn)
  local over
  coroutine.wrap(function()
    fn()
    over = true
  end)()
  assert(loop.wait(20, function() return over end))
end

return loop
