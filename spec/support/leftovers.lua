-- What keeps luv's loop alive, which all specs of a process share: what a
-- failed case leaves there is not to fail the next ones. Knows the handles that
-- were made after it was loaded: of a luv that has a thread, uv.walk crashes
-- (1.50), since the thread has a handle there that is not luv's.
local uv = require "luv"

local leftovers = {}

local made, count = {}, 0

-- A weak table would also have some that luv has freed.
local function forget_closed()
  for handle in pairs(made) do
    if handle:is_closing() then made[handle] = nil end
  end
end

local function watch(name)
  local make = uv[name]
  uv[name] = function(...)
    local handle, a, b = make(...)
    if handle then
      made[handle], count = true, count + 1
      if count % 500 == 0 then forget_closed() end
    end
    return handle, a, b
  end
end

for name in pairs(uv) do
  if name == "spawn" or name:find "^new_" and not name:find "_thread$"
      and not name:find "_work$" then
    watch(name)
  end
end

local function each(fn)
  forget_closed()
  for handle in pairs(made) do
    if handle:is_active() and handle:has_ref() then fn(handle) end
  end
end

--- The kinds of the handles that do ("timer, pipe"); "" if none does.
function leftovers.kinds()
  local kinds = {}
  each(function(handle)
    kinds[#kinds + 1] = tostring(handle):match("^uv_(%w+)")
  end)
  table.sort(kinds)
  return table.concat(kinds, ", ")
end

--- They keep it alive no more.
function leftovers.release()
  each(function(handle) handle:unref() end)
end

return leftovers
