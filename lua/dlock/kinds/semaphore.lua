-- The limit goes with each request, and a store keeps it no longer than its
-- holders and waiters. So an object changes its own limit without a request,
-- and programs that disagree are told `invalid` (csrc/store/kit/admission.h).
local lockable = require "dlock.lockable"
local modes = require "dlock.modes"
local options = require "dlock.options"
local results = require "dlock.results"
local text = require "dlock.text"

local semaphore, fail = {}, results.fail

semaphore.SHOWN = 1000 -- holders in one inspect: DLK_SHOWN_MAX

--- What store:semaphore gives.
---@class dlock.semaphore: dlock.lockable
---@field acquire fun(self: dlock.semaphore, opts?: dlock.permit_options):
--- dlock.lease|nil, string?, dlock.code?
---@field try_acquire fun(self: dlock.semaphore,
--- opts?: dlock.try_permit_options): dlock.lease|nil, string?, dlock.code?
local methods = {}

local function kind_of(permits)
  return { name = "semaphore", mode = modes.semaphore, units = 1,
    cap = permits }
end

--- Why a store has no permits, or nil.
function semaphore.missing(client)
  return client.module == "redlock" and client.shown .. ": a majority cannot"
    .. " count permits; use redis:// or zookeeper://" or nil
end

-- Of the holders of a key.
local function permits_in_use(found)
  local used = 0
  for _, holder in ipairs(found.holders) do
    used = used + (holder.permits or math.huge) -- another kind of lock
  end
  return used
end

--- Returns how many of the permits of this object nobody holds: 0 also while
--- another kind of lock is held. It is `unsupported` from 1000 holders on.
---@return integer|nil
---@return string? message
---@return dlock.code? code
function methods:available(extra)
  local state = lockable.state_of(self, "available", "semaphore")
  options.check_end(extra, "semaphore:available", "no argument")
  local missing = semaphore.missing(state.client)
  if missing then return fail("unsupported", missing) end
  local found, message, code = lockable.inspect(state)
  if code then return nil, message, code end
  local cap = state.kind.cap
  if not found then
    return cap
  elseif #found.holders >= semaphore.SHOWN then
    return fail("unsupported", ("%s has %d holders or more, and no more are"
      .. " counted"):format(text.quote(state.key), semaphore.SHOWN))
  end
  return math.max(cap - permits_in_use(found), 0)
end

--- Later requests of this object have that number of permits (1 to 2147483647);
--- its holds and waits keep theirs. Returns `true`. No I/O. See
--- [semaphores](#semaphores).
---@param permits integer from 1 to 2147483647
---@return true|nil
---@return string? message
---@return dlock.code? code invalid
function methods:resize(permits, extra)
  local state = lockable.state_of(self, "resize", "semaphore")
  options.check_end(extra, "semaphore:resize", "a number of permits")
  local bad = options.check_number(permits, "permits", "semaphore:resize")
  if bad then return fail("invalid", bad) end
  state.kind, state.prepared = kind_of(permits), nil
  return true
end

local CLASS = lockable.class("semaphore", methods)

function semaphore.new(client, key, permits, opts)
  return lockable.new(CLASS, kind_of(permits), client, key, opts)
end

return semaphore
