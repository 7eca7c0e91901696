-- Misuse (a wrong type, an unknown option) raises an error at the line of the
-- program: the first function on the stack from outside dlock. So dlock counts
-- no levels and may use tail calls. Without a debug library the error has no
-- line.
local core = require "dlock.core"

local misuse = {}

local getinfo = debug and debug.getinfo
local OURS = getinfo and getinfo(1, "S").source:match("^.*[/\\]")

local function program_level()
  local level = 3 -- the caller of raise
  while OURS do
    local frame = getinfo(level, "S")
    if not frame or frame.source:sub(1, #OURS) ~= OURS
        and frame.source ~= "=(tail call)" then -- in 5.1
      return level - 1
    end
    level = level + 1
  end
  return 0
end

function misuse.raise(message, ...)
  error(message:format(...), program_level())
end

--- Raises for a method that was called with a dot.
function misuse.no_self(object, call)
  core.no_self(object, call, program_level())
end

return misuse
