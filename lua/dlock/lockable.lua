-- Every kind of lock asks the same queue for units under a cap: 0 units are
-- exclusive, a reader takes 1 without a cap, p permits of a semaphore of n are
-- p units under the cap n. All acquires go through this file.
local canceller = require "dlock.canceller"
local class = require "dlock.class"
local core = require "dlock.core"
local host = require "dlock.host"
local misuse = require "dlock.misuse"
local modes = require "dlock.modes"
local options = require "dlock.options"
local reentrant = require "dlock.reentrant"
local results = require "dlock.results"
local text = require "dlock.text"
local with = require "dlock.with"

local lockable, fail = {}, results.fail

local ready, wait_for = host.ready, host.wait

local STATE = {} -- the key of all kinds' states
local WEAK = { __mode = "k" }

-- `mode` finds the hold of an owner who enters again.
local EXCLUSIVE, SHARED = modes.exclusive, modes.shared
local MUTEX = { name = "mutex", mode = EXCLUSIVE, units = 0, cap = 0 }

lockable.MUTEX = MUTEX
lockable.READER = { name = "reader", mode = SHARED, units = 1, cap = 0 }
lockable.WRITER = { name = "writer", mode = EXCLUSIVE, units = 0, cap = 0 }

-- Waits for a ticket, noted in the weak sets that cancel() reads. `cancel` is
-- the state of a canceller.
local function wait_noted(client, ticket, adapter, waits, cancel)
  if waits then
    waits[ticket] = true
  end
  if cancel then
    cancel.waits[ticket] = true
    if cancel.cancelled then -- a debug hook cancelled it since we looked
      ticket:cancel()
    end
  end
  return wait_for(client, ticket, adapter, waits, cancel and cancel.waits)
end

-- Gives the state of the option cancel, or nil; then what is wrong.
local function read(opts, kind, key)
  local cancel, permits = rawget(opts, "cancel"), rawget(opts, "permits")
  cancel = cancel and canceller.state(cancel)
  if cancel and cancel.cancelled then
    return fail("cancelled", ("the canceller given for %s was used before")
      :format(text.quote(key)))
  elseif permits and permits > kind.cap then
    return fail("invalid", ("permits is %s, but the semaphore %s has %s")
      :format(text.number(permits), text.quote(key), text.number(kind.cap)))
  end
  return cancel
end

--- A copy of options, for a lock that is given back unless core.give hands it
--- to the program.
function lockable.provisional(opts)
  local own = { provisional = true }
  for name, value in next, opts or {} do own[name] = value end
  return own
end

local function request(from, opts, wait, waits, key, owner)
  local client, cancel = from.client, nil
  if opts then
    local bad, why
    cancel, bad, why = read(opts, from.kind, key or from.key)
    if bad then return nil, bad, why end
  end
  local adapter, message, code = ready(client)
  if not adapter then return nil, message, code end
  local submit = from.prepared
  if not submit then
    submit = client.engine:prepare(from.base, from.kind, from.key, from.owner)
    from.prepared = submit
  end
  local ticket
  ticket, message, code = submit(wait, opts, key, owner)
  if not ticket then return nil, message, code end
  return wait_noted(client, ticket, adapter, waits, cancel)
end

-- A live hold that this owner may enter again: of the same mode, or for a
-- reader the owner's write lock. A reader that writes would wait for itself.
local function find_outer(client, kind, key, who)
  local mode = kind.mode
  local outer = reentrant.find(client.holds, mode .. "\0" .. key, who)
  if outer then
    return outer, mode
  end
  local other = mode == SHARED and EXCLUSIVE or SHARED
  outer = reentrant.find(client.holds, other .. "\0" .. key, who)
  if outer and mode == EXCLUSIVE then
    return nil, nil, ("unsupported: %s is held for reading by the same owner,"
      .. " which would wait for itself: release that first, or begin with"
      .. " write() and lease:downgrade()"):format(text.quote(key))
  end
  return outer, other
end

local function request_reentrant(from, opts, wait, waits, key, owner)
  local client, kind = from.client, from.kind
  key, owner = key or from.key, owner or from.owner
  if not owner then -- the owner is known only where a call can wait
    local adapter, message, code = host.ready(client)
    if not adapter then return nil, message, code end
  end
  local who = owner or host.owner(client)
  local outer, mode, bad = find_outer(client, kind, key, who)
  if bad then
    return nil, bad, "unsupported"
  end
  if outer and opts then -- without a request
    local _, message, code = read(opts, kind, key)
    if message then return nil, message, code end
  end
  local inner = outer and core.share(outer)
  if inner then
    host.own(client, inner)
    if not (opts and rawget(opts, "provisional")) then
      core.give(inner)
    end
  else
    local message, code
    mode = kind.mode
    inner, message, code = request(from, opts, wait, waits, key, owner)
    if not inner then return nil, message, code end
  end
  reentrant.add(client.holds, mode .. "\0" .. key, who, inner)
  return inner
end

--- Acquires.
---@param from table a lockable's state, or client.mutex: client, kind, base
--- (the defaults of opts) and, of one lock, key and owner
---@param wait boolean false: try once
---@param waits table|nil the set that notes the wait
function lockable.acquire(from, opts, wait, waits, nested, key, owner)
  if nested then
    return request_reentrant(from, opts, wait, waits, key, owner)
  end
  return request(from, opts, wait, waits, key, owner)
end

local acquire = lockable.acquire

function lockable.run(lease, message, code, fn, ...)
  if not lease then return nil, message, code end
  return with.run(lease, fn, ...)
end

-- A debug library sees hidden metatables too.
local metatable_of = debug and debug.getmetatable or getmetatable

--- Whether fn can be called. A callable value is never a table of options.
function lockable.callable(fn)
  if type(fn) == "function" then
    return true
  end
  local meta = metatable_of(fn)
  return type(meta) == "table" and rawget(meta, "__call") ~= nil
end

function lockable.check_function(fn, call)
  if not lockable.callable(fn) then
    misuse.raise("%s needs a function to run, not a %s", call, type(fn))
  end
end

--- The inner table of a lockable: client, kind, key, base, owner, waits.
function lockable.state(self)
  return type(self) == "table" and rawget(self, STATE) or nil
end

function lockable.state_of(self, call, name)
  return lockable.state(self) or misuse.no_self(name or "mutex", call)
end

local state_of = lockable.state_of

function lockable.take(state, opts, wait)
  return acquire(state, opts, wait, state.waits, state.base.reentrant)
end

--- Makes a request and waits for its end, as far as cancel(), and a canceller's
--- state in `cancel`, let it.
function lockable.ask(state, name, ...)
  local client = state.client
  local adapter, message, code = host.ready(client)
  if not adapter then return nil, message, code end
  local ticket
  ticket, message, code = client.engine[name](client.engine, ...)
  if not ticket then return nil, message, code end
  return wait_noted(client, ticket, adapter, state.waits, state.cancel)
end

--- Holders and waiters of a key, or nil without a code. Where fences may be
--- uncertain, a holder's `hold` can stand for it.
function lockable.inspect(state)
  local found, message, code = lockable.ask(state, "inspect", state.key)
  if found and #found.holders == 0 and #found.waiters == 0 then
    return nil
  end
  return found, message, code
end

--- What can be acquired: a mutex, both halves of a rwlock, a semaphore, an
--- election, and what dlock.all and dlock.fallback give.
---@class dlock.lockable
local methods = {}

--- Waits in the queue for at most `timeout` seconds. Returns a lease.
---@param opts? dlock.acquire_options
---@nodiscard
---@return dlock.lease|nil
---@return string? message
---@return dlock.code? code
function methods:acquire(opts, extra)
  local state = type(self) == "table" and self[STATE]
    or state_of(self, "acquire")
  options.check_end(extra, state.calls.acquire, "options")
  local bad = options.check(opts, state.calls.acquire)
  if bad then return fail("invalid", bad) end
  return state.take(state, opts, true)
end

--- Returns a lease, or `busy` at once; it does not pass waiters.
---@param opts? dlock.try_options
---@nodiscard
---@return dlock.lease|nil
---@return string? message
---@return dlock.code? code
function methods:try_acquire(opts, extra)
  local state = state_of(self, "try_acquire")
  options.check_end(extra, state.calls.try_acquire, "options")
  local bad = options.check(opts, state.calls.try_acquire)
  if bad then return fail("invalid", bad) end
  return state.take(state, opts, false)
end

local function run_with(state, opts, fn, ...)
  local lease, message, code = state.take(state, opts, true)
  return lockable.run(lease, message, code, fn, ...)
end

--- Acquires, calls `fn(lease, …)` and releases. Returns `true` and the results
--- of fn. Without the lock fn does not run: `nil, message, code`. If the lock
--- was lost while fn ran: `nil, message, "lost", results…`. An error of fn is
--- passed on unchanged.
---@param opts? dlock.acquire_options
---@param fn fun(lease: dlock.lease, ...): ...
---@param ... any for fn, behind the lease
---@return true|nil
---@return any ... # fn's results; or the message and the code
---@overload fun(self,
--- fn: (fun(lease: dlock.lease, ...): ...), ...): true|nil, any
function methods:with(opts, ...)
  local state = state_of(self, "with")
  if lockable.callable(opts) then
    return run_with(state, nil, opts, ...)
  end
  lockable.check_function((...), state.calls.with)
  local bad = options.check(opts, state.calls.with)
  if bad then return fail("invalid", bad) end
  return run_with(state, opts, ...)
end

--- Whether somebody holds it now. It takes one round trip.
---@return boolean|nil
---@return string? message
---@return dlock.code? code
function methods:locked(extra)
  local state = state_of(self, "locked")
  options.check_end(extra, state.calls.locked, "no argument")
  return lockable.ask(state, "locked", state.key)
end

--- Ends every wait of this object with `cancelled`.
---@return true
function methods:cancel(extra)
  local state = state_of(self, "cancel")
  options.check_end(extra, state.calls.cancel, "no argument")
  for ticket in next, state.waits do
    ticket:cancel()
  end
  return true
end

function lockable.class(name, extra)
  local index = {}
  for call, fn in pairs(methods) do index[call] = fn end
  for call, fn in pairs(extra or {}) do index[call] = fn end
  local made = class(name, index, "; options go into the call that made it",
    STATE)
  made.calls = {}
  for call in pairs(index) do made.calls[call] = name .. ":" .. call end
  return made
end

--- The state needs what take uses, and `shown`.
function lockable.object(kind_of, state)
  state.calls = kind_of.calls
  state.take = state.take or lockable.take
  state.waits = setmetatable({}, WEAK)
  return kind_of.new(state)
end

--- A lock on one key; arguments of this and of mutex have been checked.
function lockable.new(kind_of, kind, client, key, opts)
  return lockable.object(kind_of, {
    client = client,
    kind = kind,
    key = key,
    shown = text.quote(key),
    base = opts and options.defaults(opts, client.base) or client.base,
    owner = opts and rawget(opts, "owner"),
  })
end

---@class dlock.mutex: dlock.lockable

local CLASS = lockable.class "mutex"

function lockable.mutex(client, key, opts)
  return lockable.new(CLASS, MUTEX, client, key, opts)
end

return lockable
