-- Signals end waits. A handler notes each (csrc/lua/child.c). A debug hook runs
-- with Lua code, in a wait five times a second: it raises an error for a note,
-- and does work beside a wait.
local core = require "dlock.core"

local signals = {}

local STEPS = 10 -- VM instructions between looks

local beside

--- Has fn called beside a wait; nil ends that. fn notices no signal, so it must
--- not wait.
function signals.beside(fn)
  beside = fn
end

--- Calls work(waited). A signal ends it until it calls waited(), which returns
--- an earlier one.
---@param all boolean signals of a write, too
---@return any # its result; nil when a signal ended it
---@return integer|nil signal
function signals.until_one(all, work)
  local interrupt, signal = {}, nil
  local function look()
    signal = core.caught()
    if signal then
      debug.sethook()
      error(interrupt, 0)
    elseif beside then
      beside()
    end
  end
  local function waited()
    debug.sethook()
    return core.caught()
  end
  core.catch_signals(all)
  local ok, result = pcall(function()
    debug.sethook(look, "", STEPS)
    return work(waited)
  end)
  debug.sethook()
  if not ok and result ~= interrupt then
    error(result, 0)
  end
  return ok and result or nil, signal
end

return signals
