-- Running a function under a lock: released on return and on error, the error
-- value as it was.
--
-- On Lua 5.4 the lease is closed by the generic for, whose fourth value is a
-- to-be-closed variable; older Luas read the same line and ignore that value.
-- So no error is caught and raised again there, and a handler outside sees the
-- traceback of where it happened. Older Luas have no such means: they catch,
-- release, and raise the same value. So does 5.4 in a coroutine that has
-- nothing to catch an error: it would die without closing its variables.
local core = require "dlock.core"
local lease = require "dlock.lease"
local protect = require "dlock.protect"
local text = require "dlock.text"

local with = {}

local function once()
  return true
end

local function has_closing_for()
  local closed = false
  local guard = setmetatable({}, { __close = function() closed = true end })
  for _ in once, nil, nil, guard do -- luacheck: ignore 512
    break
  end
  return closed
end

-- (dlock.all gives a table that stands for several leases.)
local function release(self)
  if type(self) == "table" then
    return self:release()
  end
  return lease.release(self)
end

local function is_detached(self)
  return type(self) ~= "table" and core.slot(self).detached
end

-- fn has returned these. They were made under the lock if the release says so,
-- or, when the store does not answer, if our own deadline had not passed.
local function finish(self, ...)
  local held, released, message, code = self:held(), release(self)
  if released or held and code ~= "lost" or is_detached(self) then
    return true, ...
  elseif code ~= "lost" then
    message = ("lost: the lease on %s ended while the function ran (%s)")
      :format(self.key and text.quote(self.key) or tostring(self), message)
  end
  return nil, message, "lost", ...
end

local function run_closing(self, fn, ...)
  for _ in once, nil, nil, self do -- luacheck: ignore 512
    return finish(self, fn(self, ...))
  end
end

-- Whether an error raised here would be caught in this coroutine.
local function is_protected()
  local _, is_main = coroutine.running()
  if is_main then
    return true
  end
  for level = 2, math.huge do
    local frame = debug.getinfo(level, "f")
    if not frame then
      return false
    elseif frame.func == pcall or frame.func == xpcall then
      return true
    end
  end
end

local function settle(self, ok, ...)
  if ok then
    return finish(self, ...)
  end
  release(self)
  error((...), 0)
end

local function run_catching(self, fn, ...)
  return settle(self, protect.call(fn, self, ...))
end

local function run_either(self, fn, ...)
  if is_protected() then
    return run_closing(self, fn, ...)
  end
  return run_catching(self, fn, ...)
end

--- Calls fn(lease, ...) and releases the lease.
---@type fun(self: dlock.lease, fn: function, ...): true|nil, ...
with.run = has_closing_for() and run_either or run_catching

return with
