-- A pcall that can be yielded across on every Lua, and with it the owner of a
-- call, for reentrant locks, and whether a call can yield.
--
-- PUC 5.1 cannot yield across pcall: inside a coroutine the function runs there
-- in a coroutine of its own, whose yields are passed on. That is noted as the
-- heir of the coroutine that made it, which stays the owner. The note is per
-- process, because locks of two stores may be nested, and goes when the call
-- ends.
local core = require "dlock.core"

local protect = {}

local create, resume = coroutine.create, coroutine.resume
local running, status = coroutine.running, coroutine.status
local yield = coroutine.yield

local heirs = setmetatable({}, { __mode = "kv" }) -- of whom
local main = {} -- the main thread of a Lua that has no object for it

-- LuaJIT does; to try it there would be an error in a handler of OpenResty,
-- where coroutine.resume itself yields, to nginx, and we are being required.
local function yields_across_pcall()
  if rawget(_G, "jit") then
    return true
  end
  local co = create(function() pcall(yield) end)
  resume(co)
  return status(co) == "suspended"
end

--- Who is running: the coroutine, or what stands for the main thread. Or who
--- has made that coroutine: itself, too, if an error ended one between, so that
--- what it yields comes out of nobody.
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

-- 5.2 yields across some C functions and does not say below which others it is;
-- those of its own libraries are known.
local BLOCKS = _VERSION == "Lua 5.2" and { [table.sort] = true,
  [string.gsub] = true, [require] = true, [load] = true, [tostring] = true,
  [print] = true, [string.format] = true, [pairs] = true, [ipairs] = true }

local getinfo = debug and debug.getinfo -- an embedded Lua may have none

local function is_blocked()
  for level = 3, math.huge do
    local frame = getinfo and getinfo(level, "f")
    if not frame or BLOCKS[frame.func] then
      return frame ~= nil
    end
  end
end

--- False where a yield would be an error: in the main thread, and below a C
--- function that cannot be yielded across (table.sort, say, or
--- coroutine.close). An heir's yields come out of the one that made it.
function protect.can_yield()
  if not core.can_yield() or BLOCKS and is_blocked() then
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
    return pcall(fn, ...) -- nobody to yield to
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

--- Calls fn(...) and returns what it gives. On Lua 5.4 the guard, whose
--- metatable has a __close, is closed when that ends in whatever way, and at
--- once when its coroutine is closed: it is the fourth value of a generic for,
--- which older Luas, that read the same line, ignore.
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

--- Whether closing() does that here.
protect.closes = closes()

return protect
