-- A host is a way to wait: a table with
--   wait(client, ticket)  returns when ticket:poll() is true, and may give that
--   run_callbacks(client, calls)  makes these calls in order. When it returns
--                                 all have begun, except in nginx. On an event
--                                 loop none delays another, or the caller
-- and, on event loops, with some of
--   ready(client, held)  true, or nil, message, code. held: something is given
--                        back, so only the impossible is refused
--   owner(client)  the owner, for reentrancy; default: protect.owner
--   own(client, lease)  the lease ends with what runs, as a request
--   listen(client)  callbacks run from now on although nothing waits
--   deliver(client)  wakes waiters of tickets that this call ended; else the
--                    descriptor does
--   forget(client)  the engine is about to close its descriptors
--   own_events = true  it takes the engine's events itself
--   runs_us(), is_here()  for detect()
--   closed(client)  any host closed the store
-- All waits go through ready and wait of this file. Each call detects its host
-- unless the option names one.
local blocking = require "dlock.host.blocking"
local core = require "dlock.core"
local cqueues = require "dlock.host.cqueues"
local events = require "dlock.events"
local luv = require "dlock.host.luv"
local protect = require "dlock.protect"
local results = require "dlock.results"
local resty = require "dlock.host.resty"

local host, fail = {}, results.fail

local finish, wait_here = core.finish, blocking.wait

local HOSTS = {
  blocking = blocking, cqueues = cqueues, luv = luv, resty = resty,
}

local loaded, in_nginx = package.loaded, resty.is_here()

---@return table|false|nil # false: detect at every call
function host.find(name)
  if name == "auto" then
    return false
  elseif name == "resty" and not resty.is_here() then
    return fail("unsupported",
      "host = 'resty' works inside of nginx only; use 'auto'")
  elseif name == "luv" and not loaded.luv and protect.in_coroutine() then
    return fail("unsupported", "host = 'luv': luv calls back in the coroutine"
      .. " that loads it, which can then not wait; require \"luv\" in the main"
      .. " chunk before")
  elseif name == "cqueues" or name == "luv" then
    local ok, problem = pcall(require, name)
    if not ok then
      return fail("unsupported", ("host = '%s' needs that module: %s")
        :format(name, tostring(problem)))
    end
  end
  return HOSTS[name]
end

-- A call asks several times, so cqueues only where it was loaded.
local function detect()
  if in_nginx then
    return resty
  elseif loaded.cqueues and cqueues.runs_us() then
    return cqueues
  end
  return blocking
end

--- The adapter to wait with; asked before each request.
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

function host.owner(client)
  local adapter = client.host or detect()
  local owner = adapter.owner
  return owner and owner(client) or protect.owner()
end

--- A lease that no wait gave ends as if one had.
function host.own(client, lease)
  local adapter = client.host or detect()
  if adapter.own then
    adapter.own(client, lease)
  end
end

function host.listen(client)
  local adapter = client.host or detect()
  if adapter.listen then
    adapter.listen(client)
  end
end

function host.run_callbacks(client, calls)
  local adapter = client.host or detect()
  adapter.run_callbacks(client, calls)
end

-- After its results the guard must leave the ticket alone.
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
    return fail("closed", ("the store '%s' was closed"):format(client.shown))
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

--- Waits until the ticket is done, runs due callbacks and gives the ticket's
--- results. Then the ticket may be another request's, so it leaves the sets
--- before.
---@param waits? table a set that has the ticket
---@param others? table another one
function host.wait(client, ticket, adapter, waits, others)
  if adapter == blocking then -- the fast way
    wait_here(client, ticket)
    if waits then
      waits[ticket] = nil
    end
    if others then
      others[ticket] = nil
    end
    return finish(ticket)
  end
  -- Others may close the coroutine while it waits or runs callbacks. Then the
  -- place in the queue is withdrawn, and a grant that crosses that is given
  -- back.
  if protect.closes and not adapter.own_events then
    local guard = setmetatable({ ticket = ticket }, GUARD)
    return protect.closing(guard, complete, client, ticket, adapter, waits,
      others, guard)
  end
  return complete(client, ticket, adapter, waits, others)
end

--- The store was closed: pollers of another host may be gone.
function host.closed(client)
  if client.pollers then cqueues.closed(client) end
end

--- make(...) gives a ticket or nil, message, code.
function host.ask(client, make, ...)
  local adapter, message, code = host.ready(client)
  if not adapter then return nil, message, code end
  local ticket
  ticket, message, code = make(...)
  if not ticket then return nil, message, code end
  return host.wait(client, ticket, adapter)
end

return host
