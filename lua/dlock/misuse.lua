-- Misuse (a wrong type, an unknown option) raises an error at the line of the
-- program: that of the first function on the stack which is not dlock's. So no
-- function of dlock counts how many of ours lie below it, and each may use tail
-- calls. An embedded Lua may have no debug library: there an error has no line.
local core = require "dlock.core"

local misuse = {}

local getinfo = debug and debug.getinfo
local OURS = getinfo and getinfo(1, "S").source:match("^.*[/\\]")

-- As error() in the caller of this counts.
local function program_level()
  local level = 3 -- the caller of raise
  while OURS do
    local frame = getinfo(level, "S")
    if not frame or frame.source:sub(1, #OURS) ~= OURS
        and frame.source ~= "=(tail call)" then -- so 5.1 shows one
      return level - 1
    end
    level = level + 1
  end
  return 0
end

--- Raises an error with this text.
---@param message string a format
---@param ... any for it
function misuse.raise(message, ...)
  error(message:format(...), program_level())
end

--- Raises for a method that was called with a dot.
---@param object string as messages name it
function misuse.no_self(object, call)
  core.no_self(object, call, program_level())
end

return misuse
