-- Cases in which time itself is the subject. A lease of half a second is lost,
-- and rightly so, when the machine stands still for that long: such a case then
-- says nothing. It is tried again if it fails, but only if the machine stood
-- still meanwhile, which is seen by a thread that wants to run every 5 ms and
-- did not for 0.1 s. On a machine that goes on, what fails fails at once; and
-- what fails always fails.
--
--   local timed = steady(set_up, tear_down)
--   timed("a lease of 0.3 s ends", function() … end)     -- as `it`

local busted = require "busted"
local protect = require "dlock.protect"
local uv = require "luv"

local STOOD_STILL = 0.1 -- seconds
local PATIENCE = 60 -- for all attempts

-- Runs in a thread, with a Lua of its own, and says so, until it can read from
-- `stop`; then writes the longest time between two of its turns, in ns.
local function look_on(stop, longest, began)
  local clock = require "luv"
  local most, before = 0, began
  clock.fs_write(longest, "b", -1)
  repeat
    clock.sleep(5)
    local now = clock.hrtime()
    most, before = math.max(most, now - before), now
  until clock.fs_read(stop, 1, -1)
  clock.fs_write(longest, ("%d"):format(most), -1)
end

-- Under Lua 5.5 luv 1.51 crashes in its threads: there nothing is tried again.
local HAS_THREADS = _VERSION ~= "Lua 5.5"

-- Watches from now on, until the function that is returned is called: that
-- gives for how many seconds the machine stood still at the most.
local function watched()
  if not HAS_THREADS then
    return function() return 0 end
  end
  local stop, longest = uv.pipe({ nonblock = true }, {}), uv.pipe({}, {})
  local thread = uv.new_thread(look_on, stop.read, longest.write,
    uv.hrtime())
  assert(uv.fs_read(longest.read, 1, -1) == "b")
  return function()
    uv.fs_write(stop.write, "x", -1)
    thread:join()
    local seconds = tonumber((uv.fs_read(longest.read, 30, -1))) / 1e9
    for _, fd in ipairs { stop.read, stop.write, longest.read,
      longest.write } do
      uv.fs_close(fd)
    end
    return seconds
  end
end

local function first_line(problem)
  local text = type(problem) == "table" and problem.message or problem
  return tostring(text):match("[^\n]*")
end

-- Calls fn until it does not fail. The watch is on, so that it is no news to a
-- case that looks for new threads; watch.renew() before each further attempt.
local function attempt(watch, name, fn)
  local deadline = uv.hrtime() + PATIENCE * 1e9
  while true do
    local ok, problem = protect.call(fn)
    if ok then
      return
    end
    local seconds = watch.finish()
    if seconds < STOOD_STILL or uv.hrtime() > deadline then
      error(problem, 0)
    end
    print(("  again, since the machine stood still for %.1f s: %s (%s)")
      :format(seconds, name, first_line(problem)))
    collectgarbage() -- stores that it left open
    collectgarbage()
    watch.renew()
  end
end

--- An `it` for such cases, where it is called: in a describe. What is to happen
--- before and after each of them and of the others there is called around each
--- attempt.
---@param before? function
---@param after? function
return function(before, after)
  local stood_still

  local function begin()
    stood_still = watched()
  end

  local function finish()
    local seconds = stood_still and stood_still() or 0
    stood_still = nil
    return seconds
  end

  local function set_up()
    begin()
    if before then
      attempt({ finish = finish, renew = begin }, "before a case", before)
    end
  end

  local function tear_down()
    finish()
    if after then after() end
  end

  busted.before_each(set_up)
  busted.after_each(tear_down)

  return function(name, fn)
    busted.it(name, function()
      attempt({ finish = finish, renew = function()
        tear_down()
        set_up()
      end }, name, fn)
    end)
  end
end
