-- What a lease can do in Lua. A lease is a userdata of the C side, which gives
-- it its fields, tostring and __gc; here are the methods, those that wait
-- above all. A handle finds its client in its engine's anchor; one that has
-- callbacks or is reentrant has a table of its own as well, the slot, that dies
-- with it.
local core = require "dlock.core"
local host = require "dlock.host"
local news = require "dlock.news"
local options = require "dlock.options"
local reentrant = require "dlock.reentrant"
local text = require "dlock.text"

local lease = {}

local methods = core.lease_methods

local anchor = core.anchor

-- This handle is given up: nothing in Lua counts on it any longer.
local function forget(client, self)
  if client.holds.count > 0 then
    reentrant.drop(client.holds, self)
  end
end

--- Releases without checking arguments.
function lease.release(self, timeout)
  local client = anchor(self).client
  local ready, message, code = host.ready(client)
  if not ready then
    return nil, message .. "; lease:release_later() works everywhere", code
  end
  forget(client, self)
  local ticket
  ticket, message, code = core.release(self, timeout)
  if not ticket then
    return nil, message, code
  end
  return host.wait(client, ticket)
end

local release = lease.release

-- Makes the request fn(self, ...) where its end can be waited for.
local function ask(self, fn, ...)
  local client = anchor(self).client
  local ready, message, code = host.ready(client)
  if not ready then
    return nil, message, code
  end
  local ticket
  ticket, message, code = fn(self, ...)
  if not ticket then
    return nil, message, code
  end
  return host.wait(client, ticket)
end

--- Ends the hold.
---@param timeout? number seconds to wait for the store (its io_timeout)
---@return true|nil
---@return string? message
---@return string? code lost, unavailable, closed, forked
function methods:release(timeout)
  if timeout ~= nil then
    local bad = options.check_number(timeout, "timeout", "lease:release", 2)
    if bad then return nil, bad, "invalid" end
  end
  return release(self, timeout)
end

--- Lets the native thread release it and returns at once; allowed where
--- waiting is not.
---@return true
function methods:release_later()
  forget(anchor(self).client, self)
  return core.release_later(self)
end

--- The lease now ends ttl seconds from now; later renewals use that ttl too.
---@param ttl? number seconds (as before)
---@return number|nil remaining seconds
---@return string? message
---@return string? code lost, unavailable, closed, forked, invalid
function methods:extend(ttl)
  if ttl ~= nil then
    local bad = options.check_number(ttl, "ttl", "lease:extend", 2)
    if bad then return nil, bad, "invalid" end
  end
  return ask(self, core.extend, ttl)
end

--- Waits until the lease is lost.
---@param timeout? number seconds (for ever)
---@return true|nil
---@return string? message
---@return string? code timeout, cancelled, closed
function methods:wait_lost(timeout)
  if timeout == nil then
    timeout = math.huge
  else
    local bad = options.check_number(timeout, "timeout", "lease:wait_lost", 2)
    if bad then return nil, bad, "invalid" end
  end
  return ask(self, core.wait_lost, timeout)
end

--- A string that carries the lease to store:attach. This handle gives the
--- lease up without releasing it.
---@return string|nil
---@return string? message
---@return string? code lost, unavailable, closed, forked
function methods:detach()
  local detached, message, code = ask(self, core.detach)
  if detached then
    core.slot(self).detached = true
    forget(anchor(self).client, self)
  end
  return detached, message, code
end

--- The same as release: an elected leader's word for it.
methods.resign = methods.release

--- A write lock becomes a read lock, without a gap in which somebody else
--- could write; readers that wait come in.
---@return true|nil
---@return string? message
---@return string? code lost, unsupported, unavailable, closed, forked
function methods:downgrade()
  local holds = anchor(self).client.holds
  if self.mode ~= "exclusive" and not core.given_up(self) then
    return nil, ("unsupported: the lease on %s is %s already; only one that is"
      .. " exclusive, as rw:write() gives it, can become shared")
      :format(text.quote(self.key), self.mode), "unsupported"
  elseif holds.count > 0 and reentrant.is_nested(holds, self) then
    return nil, ("unsupported: %s is held more than once by its owner; release"
      .. " the inner leases first"):format(text.quote(self.key)), "unsupported"
  end
  local ok, message, code = ask(self, core.downgrade)
  if ok and holds.count > 0 then
    reentrant.move(holds, self, "shared\0" .. self.key)
  end
  return ok, message, code
end

local function check_arguments(...)
  for i = 1, math.max(select("#", ...), 1) do
    local kind = type((select(i, ...)))
    if kind ~= "string" and kind ~= "number" then
      error(("lease:guard takes a command and its arguments, strings and"
        .. " numbers; number %d is a %s"):format(i, kind), 3)
    end
  end
end

--- Does a write in the same store only if the lease is still ours, atomically.
--- Arguments and results are the store's own: see its page.
---@param ... string|number
---@return any
function methods:guard(...)
  check_arguments(...)
  return ask(self, core.guard, ...)
end

local function check_callback(fn, call)
  if type(fn) ~= "function" then
    error(("%s takes a function, not a %s"):format(call, type(fn)), 3)
  end
end

--- Runs fn(lease, reason) once, when the lease is seen to be lost, inside the
--- next call of dlock that may wait. Errors in fn go to on_event.
---@param fn fun(lease: dlock.lease, reason: string)
---@return true
function methods:on_lost(fn)
  check_callback(fn, "lease:on_lost")
  if not core.given_up(self) then
    news.subscribe(anchor(self).client, self, "lost", fn)
    host.listen(anchor(self).client)
  end
  return true
end

--- Runs fn(lease, reason) once, when somebody asked for the lock by
--- store:revoke, inside the next call of dlock that may wait.
---@param fn fun(lease: dlock.lease, reason: string)
---@return true
function methods:on_revoke(fn)
  check_callback(fn, "lease:on_revoke")
  if not core.given_up(self) then
    news.subscribe(anchor(self).client, self, "revoked", fn)
    host.listen(anchor(self).client)
  end
  return true
end

--- Whether somebody asked for the lock by store:revoke. No I/O.
---@return boolean
methods.revoked = core.revoked

--- true while our own deadline has not passed and no loss was seen. No I/O.
--- Once false it stays false.
---@return boolean
methods.held = core.held

--- Seconds until our own deadline, 0 when lost. No I/O.
---@return number
methods.remaining = core.remaining

-- Lua 5.4: `local lease <close> = ...`. Releases with a bounded wait; what
-- comes of that is lost, because closing a variable has no result.
core.lease_meta.__close = function(self)
  if core.given_up(self) then
    return
  elseif host.ready(anchor(self).client) then
    release(self)
  else -- in coroutine.close, say, where nothing can yield
    methods.release_later(self)
  end
end

return lease
