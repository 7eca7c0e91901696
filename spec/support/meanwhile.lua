-- Something that happens in the midst of a call that blocks, in the same
-- thread and the same Lua state: by a debug hook, at the first Lua code after
-- its time, as a signal's handler would.

local core = require "dlock.core"

local meanwhile = {}

local function finish(ok, ...)
  debug.sethook()
  if not ok then error((...), 0) end
  return ...
end

--- Calls fn, and act once, `seconds` later if fn has not returned by then.
--- Returns what fn returns; an error of either of them ends it. fn must not
--- yield. later: it is called with a function that begins the time.
---@param seconds number
---@param act function
---@param fn function
---@param later? boolean
function meanwhile.act(seconds, act, fn, later)
  local at = later and math.huge or core.now() + seconds
  local function begin()
    at = core.now() + seconds
  end
  debug.sethook(function()
    if core.now() > at then
      debug.sethook()
      act()
    end
  end, "", 1)
  return finish(pcall(fn, begin)) -- in this coroutine, which has the hook
end

--- Calls fn, and act once, when ready() has come true meanwhile: looked at
--- every 20 ms. Returns what fn returns, as act does.
---@param ready function
---@param act function
---@param fn function
function meanwhile.when(ready, act, fn)
  local look_at = core.now()
  debug.sethook(function()
    if core.now() < look_at then return end
    if ready() then
      debug.sethook()
      act()
    end
    look_at = core.now() + 0.02
  end, "", 1)
  return finish(pcall(fn))
end

--- Has fn interrupted after its first slice, as Ctrl-C does it; fails if it
--- was not. later: as of meanwhile.act, that is before it waits.
---@param fn function
---@param later? boolean
function meanwhile.interrupt(fn, later)
  local interrupt = setmetatable({}, { __tostring = function()
    return "interrupted"
  end })
  local ok, problem = pcall(meanwhile.act, 0.1, function()
    error(interrupt, 0)
  end, fn, later)
  assert(not ok, "it was not interrupted")
  assert(problem == interrupt, problem)
end

return meanwhile
