-- Runs a function under a lock, which is released on return and on error.
--
-- On Lua 5.4 the lease is a to-be-closed variable (protect.closing):
-- coroutine.close releases it, and an outer handler sees the traceback. Older
-- Luas catch, release and raise the same value; so does 5.4 in a coroutine
-- without a pcall, which an error ends without closing.
local core = require "dlock.core"
local lease = require "dlock.lease"
local protect = require "dlock.protect"
local text = require "dlock.text"

local with = {}

local IS_OURS = {}
local CATCH = { [pcall] = true, [xpcall] = true }

--- A lease that is a table (dlock.all's) has this method: whether no part of it
--- was lost.
with.IS_OURS = IS_OURS

local function release(self)
  if type(self) == "table" then
    return self:release()
  end
  return lease.release(self)
end

-- fn returned these results. The lock covered them if the release says so or,
-- when the store does not answer, if our deadline had not passed.
local function finish(self, ...)
  local is_table = type(self) == "table"
  local ours = is_table and self[IS_OURS](self) or not is_table and self:held()
  local released, message, code = release(self)
  if released or ours and code ~= "lost"
      or not is_table and core.has_parted(self) then
    return true, ...
  elseif code ~= "lost" then
    message = ("lost: the lease on %s ended while the function ran (%s)")
      :format(self.key and text.quote(self.key) or tostring(self), message)
  end
  return nil, message, "lost", ...
end

local function run_plainly(self, fn, ...)
  return finish(self, fn(self, ...))
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

local function run_closing(self, fn, ...)
  local caught = not protect.in_coroutine() or protect.is_in_stack(CATCH)
  return protect.closing(self, caught and run_plainly or run_catching,
    self, fn, ...)
end

with.run = protect.closes and run_closing or run_catching

return with
