-- The methods of a lease; C has its fields, tostring and __gc. A lease with
-- callbacks, or a reentrant one, has a table of its own, the slot.
local core = require "dlock.core"
local events = require "dlock.events"
local host = require "dlock.host"
local misuse = require "dlock.misuse"
local modes = require "dlock.modes"
local options = require "dlock.options"
local reentrant = require "dlock.reentrant"
local results = require "dlock.results"
local text = require "dlock.text"

local lease, fail = {}, results.fail

--- What you hold.
---@class dlock.lease
---@field key string
---@field fence integer
---@field owner string
---@field mode "exclusive"|"shared"|"semaphore"
---@field permits? integer of a semaphore
---@field ttl number seconds
local methods = core.lease_methods

local find_client, release_ticket = core.client, core.release
local released, ready, wait = core.released, host.ready, host.wait
local has_callbacks = events.has_callbacks

-- The client. Only calls that may come late accept a finalised object.
local function client_of(self, call, may_be_late)
  local client = find_client(self)
  if client == false then
    misuse.no_self("lease", call)
  elseif not (client or may_be_late) then
    misuse.raise "the lease was collected"
  end
  return client
end

-- The handle is given up.
local function forget(client, self)
  if client.holds.count > 0 then
    reentrant.drop(client.holds, self)
  end
end

-- Nothing can wait here, so only an earlier release's result can be given.
local function release_without_wait(self, message, code)
  if core.given_up(self) then
    local ticket, its_message, its_code = release_ticket(self)
    if not ticket then
      return nil, its_message, its_code
    elseif ticket:poll() then
      return core.finish(ticket)
    end
  end
  if not message:find("release_later", 1, true) then
    message = message .. "; lease:release_later() works everywhere"
  end
  return nil, message, code
end

local function release(client, self, timeout, early)
  if not client then
    return core.release_later(self) -- self was finalised first
  end
  local adapter, message, code = ready(client, true)
  if not adapter then
    return release_without_wait(self, message, code)
  end
  if client.holds.count > 0 then
    forget(client, self)
  end
  if early then
    core.take_back(self)
  end
  local ticket
  local deliver = adapter.deliver
  local notify = client.watched.count > 0 and has_callbacks(client)
  ticket, message, code = release_ticket(self, timeout, deliver)
  if ticket == true then
    if message then -- others got something by it
      deliver(client)
    end
    return true
  elseif not ticket then
    return nil, message, code
  end
  local ok
  ok, message, code = wait(client, ticket, adapter)
  if notify then
    host.run_callbacks(client,
      events.due_at_release(client, self, code == "lost"))
  end
  if ok then
    released(self)
    return true
  end
  return nil, message, code
end

--- Releases without checking arguments.
function lease.release(self)
  return release(find_client(self), self)
end

local function releasing(name)
  local call = "lease:" .. name
  return function(self, given, extra)
    local client = client_of(self, name, true)
    options.check_end(extra, call, "a timeout or options")
    if given == nil then
      return release(client, self)
    end
    local bad, timeout, early = options.check_release(given, call)
    if bad then return fail("invalid", bad) end
    return release(client, self, timeout, early)
  end
end

--- Ends the hold, and never another client's. Returns `true`; `lost` if it was
--- not ours any more; `unavailable`. A second call gives the first result.
--- `lease:release { timeout =, early = true }` gives the rest of `min_hold` up.
---@param timeout? number|dlock.release_options seconds to wait for the store
--- (its io_timeout)
---@return true|nil
---@return string? message
---@return dlock.code? code lost, unavailable, closed, forked
methods.release = releasing "release"

--- Hands the release to the renewal thread. Returns `true` at once, also where
--- nothing can wait (filters, finalisers); `forked` in a child that forked
--- after the lock was taken.
---@return true|nil
---@return string? message
---@return dlock.code? code forked
function methods:release_later(extra)
  local client = client_of(self, "release_later", true)
  options.check_end(extra, "lease:release_later", "no argument")
  if client then
    forget(client, self)
  end
  return core.release_later(self)
end

--- The lease ends `ttl` seconds from now (its own ttl unless given), and later
--- renewals use that ttl. Returns the seconds that remain. It always asks the
--- store.
---@param ttl? number seconds (as before)
---@return number|nil remaining seconds
---@return string? message
---@return dlock.code? code lost, unavailable, closed, forked, invalid
function methods:extend(ttl, extra)
  local client = client_of(self, "extend")
  options.check_end(extra, "lease:extend", "a ttl")
  local bad = options.check_optional(ttl, "ttl", "lease:extend")
  if bad then return fail("invalid", bad) end
  events.nearer(client)
  return host.ask(client, core.extend, self, ttl)
end

--- Returns `true` when the lease is lost, else `timeout`. Of a lease that was
--- given up before (released, detached) it is `lost`.
---@param timeout? number seconds (for ever)
---@return true|nil
---@return string? message
---@return dlock.code? code timeout, cancelled, closed
function methods:wait_lost(timeout, extra)
  local client = client_of(self, "wait_lost")
  options.check_end(extra, "lease:wait_lost", "a timeout")
  local bad = options.check_optional(timeout, "timeout", "lease:wait_lost")
  if bad then return fail("invalid", bad) end
  return host.ask(client, core.wait_lost, self, timeout)
end

-- The result of a ticket from that number on that was lost, or else is done.
-- Cancels the rest.
local function result_of_one(tickets, from)
  local ok, message, code
  for i = from, #tickets do
    local ticket = tickets[i]
    if not ok and ticket:poll() then
      ok, message, code = ticket:take()
    end
    ticket:cancel()
  end
  return ok, message, code
end

--- Waits until one of several leases, of any stores, is lost or given up. The
--- first one's ticket is waited for, and ends with any other.
---@param timeout number seconds
function lease.wait_first(list, timeout)
  local client = client_of(list[1], "wait_lost")
  local adapter, message, code = ready(client)
  if not adapter then return nil, message, code end
  local tickets = {}
  for i, one in ipairs(list) do
    tickets[i], message, code = core.wait_lost(one, timeout)
    if not tickets[i] then
      result_of_one(tickets, 1)
      return nil, message, code
    elseif i > 1 then
      core.end_with(tickets[1], tickets[i])
    end
  end
  local ok
  ok, message, code = wait(client, tickets[1], adapter)
  local other, its_message, its_code = result_of_one(tickets, 2)
  if not ok and (other or code == "cancelled" and its_code) then
    ok, message, code = other, its_message, its_code
  end
  return results.of(ok, message, code)
end

--- Returns a string that carries the lease (Redis, etcd, PostgreSQL,
--- MySQL). This object gives the lease up. See
--- [detach and attach](#detach-and-attach).
---@nodiscard
---@return string|nil
---@return string? message
---@return dlock.code? code lost, unsupported, unavailable, closed, forked
function methods:detach(extra)
  local client = client_of(self, "detach")
  options.check_end(extra, "lease:detach", "no argument")
  local detached, message, code = host.ask(client, core.detach, self)
  if detached then
    core.parted(self)
    forget(client, self)
    detached = text.to_word(detached)
  end
  return results.of(detached, message, code)
end

--- The same as `release`.
---@param timeout? number|dlock.release_options
---@return true|nil
---@return string? message
---@return dlock.code? code lost, unavailable, closed, forked
methods.resign = releasing "resign"

--- A write lock becomes a read lock, without a gap. Returns `true`;
--- `unsupported` when it is shared already.
---@return true|nil
---@return string? message
---@return dlock.code? code lost, unsupported, unavailable, closed, forked
function methods:downgrade(extra)
  local client = client_of(self, "downgrade")
  options.check_end(extra, "lease:downgrade", "no argument")
  local holds = client.holds
  if self.mode ~= modes.exclusive and not core.given_up(self) then
    return fail("unsupported", ("the lease on %s is %s already; only one that"
      .. " is exclusive, as rw:write() gives it, can become shared")
      :format(text.quote(self.key), self.mode))
  elseif holds.count > 0 and reentrant.is_nested(holds, self) then
    return fail("unsupported", ("%s is held more than once by its owner;"
      .. " release the inner leases first"):format(text.quote(self.key)))
  end
  local ok, message, code = host.ask(client, core.downgrade, self)
  if ok and holds.count > 0 then
    reentrant.move(holds, self, modes.shared .. "\0" .. self.key)
  end
  return results.of(ok, message, code)
end

--- Does a write in the same store, only if the lease is still ours, in one
--- step: see [Redis](redis.md), [ZooKeeper](zookeeper.md),
--- [etcd](etcd.md), [Consul](consul.md), [PostgreSQL](postgres.md),
--- [MySQL](mysql.md). On files it is `unsupported`. `lost` when it was refused.
---@param ... string|number
---@return any
---@return string? message
---@return dlock.code? code
function methods:guard(...)
  local client = client_of(self, "guard")
  local list = { ... } -- select(i, ...) takes longer with each i
  for i = 1, math.max(select("#", ...), 1) do
    local kind = type(list[i])
    if kind ~= "string" and kind ~= "number" then
      misuse.raise("lease:guard takes a command and its arguments, strings and"
        .. " numbers; number %d is a %s", i, kind)
    end
  end
  return host.ask(client, core.guard, self, ...)
end

local FENCE_SQL = {}

-- The digits of its row's id, and the row's table.
local function row_of(client, self)
  return (client.prefix .. self.key):gsub(".", function(byte)
    return ("%02x"):format(byte:byte())
  end), self.mode == modes.exclusive and "key" or "hold"
end

-- FOR SHARE: a grant writes the row, so it waits for our COMMIT.
function FENCE_SQL.postgres(client, self)
  local id, name = row_of(client, self)
  return ("SELECT 1 FROM %s.%s WHERE id = decode('%s', 'hex') AND fence = %.0f"
    .. " FOR SHARE"):format(text.identifier(client.schema or "dlock"), name, id,
      self.fence)
end

-- MariaDB does not know FOR SHARE.
function FENCE_SQL.mysql(client, self)
  local id, name = row_of(client, self)
  return ("SELECT 1 FROM `%s`.%s%s WHERE id = X'%s' AND fence = %.0f"
    .. " LOCK IN SHARE MODE"):format(client.database:gsub("`", "``"),
    client.tables or "dlock_", name, id, self.fence)
end

--- Returns a statement for the program's own transaction in the same database,
--- as the last one before COMMIT. A row: the lock was given to nobody else, and
--- is not until the COMMIT. No row: ROLLBACK. See [PostgreSQL](postgres.md),
--- [MySQL](mysql.md); it is `unsupported` on other stores. No I/O.
---@return string|nil
---@return string? message
---@return dlock.code? code unsupported
function methods:fence_sql(extra)
  local client = client_of(self, "fence_sql")
  options.check_end(extra, "lease:fence_sql", "no argument")
  local make = FENCE_SQL[client.module]
  if make then
    return make(client, self)
  end
  return fail("unsupported", ("%s is held in no database of SQL; write with"
    .. " lease:guard where the store has it, else have the resource compare"
    .. " lease.fence"):format(text.quote(self.key)))
end

local function subscribe(client, self, kind, fn)
  if not core.given_up(self) then
    events.subscribe(client, self, kind, fn)
    host.listen(client)
  end
  return true
end

--- Calls `fn(lease, reason)` once, in Lua's own thread: see
--- [on_lost](#on_lost-and-on_revoke).
---@param fn fun(lease: dlock.lease, reason: string)
---@return true
function methods:on_lost(fn, extra)
  local client = client_of(self, "on_lost")
  events.check_callback(fn, extra, "lease:on_lost")
  return subscribe(client, self, "lost", fn)
end

--- Calls `fn(lease, reason)` once when somebody asked for the lock, also before
--- this call: see [on_revoke](#on_lost-and-on_revoke).
---@param fn fun(lease: dlock.lease, reason: string)
---@return true
function methods:on_revoke(fn, extra)
  local client = client_of(self, "on_revoke")
  events.check_callback(fn, extra, "lease:on_revoke")
  subscribe(client, self, "revoked", fn)
  core.listen(self)
  return true
end

--- Whether somebody asked for the lock (`store:revoke`), as far as this process
--- has heard. No I/O.
---@return boolean
methods.revoked = core.revoked

--- `true` while our own deadline has not passed and no loss was seen. No I/O.
--- Once false, it is false for ever.
---@return boolean
methods.held = core.held

--- Seconds until our own deadline, 0 when lost. No I/O.
---@return number
methods.remaining = core.remaining

local field = core.lease_meta.__index

-- LuaJIT compiles this.
core.lease_meta.__index = function(self, name)
  local method = methods[name]
  if method ~= nil then
    return method
  end
  return field(self, name)
end

function lease.io_timeout(self)
  local client = find_client(self)
  return client and client.io_timeout or options.default("io_timeout")
end

--- Releases with a bounded wait, for `local lease <close>`.
---@param timeout? number seconds (the store's io_timeout)
function lease.close(self, timeout)
  if core.given_up(self) then
    return
  end
  local client = find_client(self)
  if ready(client) then
    release(client, self, timeout)
  else -- as in coroutine.close
    methods.release_later(self)
  end
end

core.lease_meta.__close = function(self) -- an error follows self
  lease.close(self)
end

return lease
