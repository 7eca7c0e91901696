-- A pcall that allows yields on every Lua, the owner of a call, and whether a
-- call can yield.
--
-- PUC 5.1 cannot yield across pcall. There the function runs in a coroutine of
-- its own, an heir, whose yields are passed on. Its maker stays the owner. The
-- note of that is per process, because locks of two stores may be nested.
local core = require "dlock.core"

local protect = {}

local create, resume = coroutine.create, coroutine.resume
local running, status = coroutine.running, coroutine.status
local yield = coroutine.yield

local heirs = setmetatable({}, { __mode = "kv" }) -- heir -> maker
local main = {} -- the main thread, where Lua has no object for it

--- Whether this is not the main thread.
function protect.in_coroutine()
  local co, is_main = running()
  return co ~= nil and not is_main
end

-- LuaJIT does. In OpenResty coroutine.resume yields to nginx, so a try inside
-- require would be an error.
local function yields_across_pcall()
  if rawget(_G, "jit") then
    return true
  end
  local co = create(function() pcall(yield) end)
  resume(co)
  return status(co) == "suspended"
end

--- The owner: the coroutine, or `main`, or the first maker of an heir. It is co
--- itself if an error ended a maker between.
function protect.owner(co)
  co = co or running()
  if co == nil then
    return main
  end
  while heirs[co] do
    co = heirs[co]
  end
  return co
end

-- 5.2 yields across some C functions without saying which; these it does not.
local BLOCKS = _VERSION == "Lua 5.2" and { [table.sort] = true,
  [string.gsub] = true, [require] = true, [load] = true, [tostring] = true,
  [print] = true, [string.format] = true, [pairs] = true, [ipairs] = true }

local getinfo = debug and debug.getinfo -- an embedded Lua may have none

--- Whether a stack has one of these functions; nil where that is unknown.
---@param functions table<function, true>
---@param co? thread another one than this
function protect.is_in_stack(functions, co)
  for level = 0, getinfo and math.huge or -1 do
    local frame = co and getinfo(co, level, "f")
      or not co and getinfo(level, "f")
    if not frame or functions[frame.func] then
      return frame and true or false
    end
  end
end

--- False where a yield would be an error: in the main thread, and below a C
--- function such as table.sort. An heir needs the same of each maker.
function protect.can_yield()
  if not core.can_yield() or BLOCKS and protect.is_in_stack(BLOCKS) then
    return false
  end
  local co = running()
  while heirs[co] do
    co = heirs[co]
    if not core.can_yield(co) then
      return false
    end
  end
  return true
end

local function pass_on(co, ok, ...)
  if ok and status(co) == "suspended" then
    return pass_on(co, resume(co, yield(...)))
  end
  heirs[co] = nil
  return ok, ...
end

local function call_in_coroutine(fn, ...)
  if running() == nil then
    return pcall(fn, ...)
  end
  local co = create(function(...) return fn(...) end)
  heirs[co] = running()
  return pass_on(co, resume(co, ...))
end

--- pcall, across which fn may yield.
protect.call = yields_across_pcall() and pcall or call_in_coroutine

local function once()
  return true
end

--- Calls fn(...). On Lua 5.4 the guard's __close runs when fn ends in whatever
--- way, or its coroutine is closed: the guard is the fourth value of a generic
--- for, which older Luas ignore.
function protect.closing(guard, fn, ...)
  for _ in once, nil, nil, guard do -- luacheck: ignore 512
    return fn(...)
  end
end

local function closes()
  local closed = false
  protect.closing(setmetatable({}, { __close = function() closed = true end }),
    once)
  return closed
end

protect.closes = closes()

return protect
