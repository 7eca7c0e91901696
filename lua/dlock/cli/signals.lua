-- Signals end every wait: a handler notes each (csrc/lua/child.c), and a debug
-- hook looks for the note whenever Lua code runs, five times a second while
-- dlock waits, and raises an error. Work beside a wait is done by the hook too.
local core = require "dlock.core"

local signals = {}

local STEPS = 10 -- of Lua's machine between two looks

local beside

--- Has fn called again and again while the program waits; nil ends that. In fn
--- no signal is noticed, so it must not wait.
function signals.beside(fn)
  beside = fn
end

--- Calls work(waited); a signal ends it until it calls waited(), which returns
--- one that came before.
---@param all boolean those of a write, too
---@param work fun(waited: fun(): integer|nil): any
---@return any # what it returned; nil when a signal ended it
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
