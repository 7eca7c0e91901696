-- Hosts: how to wait. A host is a table with
--   wait(client, ticket)   returns when ticket:poll() is true; may give what
--                          that gives
--   run_callbacks(client, calls)   makes these calls of the user's functions,
--                          in their order: the one way. When it returns all
--                          have begun (but in nginx); on an event loop none
--                          keeps another, or the caller
-- and, on event loops, what it needs of
--   ready(client, held)    true, or nil, message, code: cannot wait here; held:
--                          something is to be given back, so refuse only what
--                          is impossible
--   owner(client)          who asks, for reentrancy; without it that is the
--                          coroutine (protect.owner)
--   own(client, lease)     the lease ends with whatever runs, a request say
--   listen(client)         callbacks are to be run from now on although nobody
--                          waits
--   deliver(client)        wakes the waiters of tickets that this call ended;
--                          without it the descriptor wakes them
--   forget(client)         the engine is about to close its descriptors
--   own_events = true      it takes the engine's events by itself
--   runs_us() or is_here() whether it runs the code that asks; whether this
--                          process is one of its kind. For detect(), below
--   closed(client)         the store was closed, by a wait on any host: what
--                          this one has left behind for it ends
-- Everything else in dlock waits by calling ready and wait here. Which host
-- it is is asked at every call unless the store's option names one: the same
-- store may be used inside and outside of an event loop.
local blocking = require "dlock.host.blocking"
local core = require "dlock.core"
local cqueues = require "dlock.host.cqueues"
local events = require "dlock.events"
local luv = require "dlock.host.luv"
local protect = require "dlock.protect"
local resty = require "dlock.host.resty"

local host = {}

local finish, wait_here = core.finish, blocking.wait

local HOSTS = {
  blocking = blocking, cqueues = cqueues, luv = luv, resty = resty,
}

local loaded, in_nginx = package.loaded, resty.is_here()

local function in_coroutine()
  local co, is_main = coroutine.running()
  return co ~= nil and not is_main
end

--- The adapter that the option `host` names.
---@return table|false|nil # false: ask at every call
function host.find(name)
  if name == "auto" then
    return false
  elseif name == "resty" and not resty.is_here() then
    return nil, "unsupported: host = 'resty' works inside of nginx only; use"
      .. " 'auto'", "unsupported"
  elseif name == "luv" and not loaded.luv and in_coroutine() then
    return nil, "unsupported: host = 'luv': luv calls back in the coroutine"
      .. " that loads it, which can then not wait; require \"luv\" in the main"
      .. " chunk before", "unsupported"
  elseif name == "cqueues" or name == "luv" then
    local ok, problem = pcall(require, name)
    if not ok then
      return nil, ("unsupported: host = '%s' needs that module: %s")
        :format(name, tostring(problem)), "unsupported"
    end
  end
  return HOSTS[name]
end

-- The host that is running us now. Asked several times in every call, so what
-- cannot change is not asked, and cqueues only where it was ever loaded.
local function detect()
  if in_nginx then
    return resty
  elseif loaded.cqueues and cqueues.runs_us() then
    return cqueues
  end
  return blocking
end

--- The adapter to wait with, if a request can be waited for here; asked before
--- it is made.
---@param held? boolean it gives back what is held
function host.ready(client, held)
  local adapter = client.host
  if not adapter then
    if not (in_nginx or loaded.cqueues) then
      return blocking
    end
    adapter = detect()
  end
  if adapter.ready then
    local ok, message, code = adapter.ready(client, held)
    return ok and adapter, message, code
  end
  return adapter
end

--- Who is asking, as far as reentrancy goes.
function host.owner(client)
  local adapter = client.host or detect()
  local owner = adapter.owner
  return owner and owner(client) or protect.owner()
end

--- A lease that no wait gave ends where one that a wait gave would.
function host.own(client, lease)
  local adapter = client.host or detect()
  if adapter.own then
    adapter.own(client, lease)
  end
end

--- This client has callbacks to be run although nobody waits.
function host.listen(client)
  local adapter = client.host or detect()
  if adapter.listen then
    adapter.listen(client)
  end
end

--- Makes calls of the user's functions that a call of ours, which is over, has
--- found to be due.
function host.run_callbacks(client, calls)
  local adapter = client.host or detect()
  adapter.run_callbacks(client, calls)
end

-- The wait itself. The guard, if any, has nothing to do with the ticket any
-- more when that has given its results.
local function complete(client, ticket, adapter, waits, others, guard)
  local done = adapter.wait(client, ticket)
  if waits then
    waits[ticket] = nil
  end
  if others then
    others[ticket] = nil
  end
  if not adapter.own_events then
    adapter.run_callbacks(client, events.due(client))
  end
  if guard then
    guard.ticket = nil
  end
  if not (done or ticket:poll()) then
    ticket:cancel()
    return nil, ("closed: the store '%s' was closed"):format(client.shown),
      "closed"
  end
  if adapter.forget and ticket:closes() then
    adapter.forget(client)
  end
  return finish(ticket)
end

local GUARD = { __close = function(guard)
  if guard.ticket then
    guard.ticket:abandon()
  end
end }

-- The coroutine that waits, or runs callbacks behind the wait, may be closed by
-- others: then nobody takes what the ticket gives, so its place in the queue is
-- withdrawn and a grant that crosses that is given back.
local function complete_guarded(client, ticket, adapter, waits, others)
  local guard = setmetatable({ ticket = ticket }, GUARD)
  return protect.closing(guard, complete, client, ticket, adapter, waits,
    others, guard)
end

--- Waits until the ticket is done, runs the callbacks that are due, and
--- returns the ticket's results. It is the last use of the ticket, which may be
--- another request's after it: so it leaves the sets first.
---@param adapter table what ready() gave
---@param waits? table a set in which the ticket is noted
---@param others? table another one
function host.wait(client, ticket, adapter, waits, others)
  if adapter == blocking then -- in as few steps as can be
    wait_here(client, ticket)
    if waits then
      waits[ticket] = nil
    end
    if others then
      others[ticket] = nil
    end
    return finish(ticket)
  end
  if protect.closes and not adapter.own_events then
    return complete_guarded(client, ticket, adapter, waits, others)
  end
  return complete(client, ticket, adapter, waits, others)
end

--- A call that closes the store is over: pollers of another host than the one
--- that waited for it may be gone.
function host.closed(client)
  cqueues.closed(client)
end

--- Makes the request make(...), a ticket or nil, message, code, where it can be
--- waited for, and waits for its end.
function host.ask(client, make, ...)
  local adapter, message, code = host.ready(client)
  if not adapter then return nil, message, code end
  local ticket
  ticket, message, code = make(...)
  if not ticket then return nil, message, code end
  return host.wait(client, ticket, adapter)
end

return host
