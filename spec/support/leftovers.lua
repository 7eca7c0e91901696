-- What keeps luv's loop alive, which all specs of a process share: what a
-- failed case leaves there is not to fail the next ones.
local uv = require "luv"

local leftovers = {}

local function each(fn)
  uv.walk(function(handle)
    if handle:is_active() and handle:has_ref() and not handle:is_closing() then
      fn(handle)
    end
  end)
end

--- The kinds of the handles that do ("timer, pipe"); "" if none does.
function leftovers.kinds()
  local kinds = {}
  each(function(handle)
    kinds[#kinds + 1] = tostring(handle):match("^uv_(%w+)")
  end)
  return table.concat(kinds, ", ")
end

--- They keep it alive no more.
function leftovers.release()
  each(function(handle) handle:unref() end)
end

return leftovers
