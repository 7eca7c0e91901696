-- The engine in resident mode, and how an event loop waits for it.
local core = require "dlock.core"
local engine = require "spec.support.engine"
local memory = require "spec.support.memory"
local uv = require "luv"

local resident = {}

--- An engine over the store in memory that nobody has to drive; unless `yet`
--- is false. It waits for answers for 0.2 s, or io_timeout.
function resident.open(yet, io_timeout)
  local e = assert(engine.new(memory.load(), { shown = "memory:",
    io_timeout = io_timeout or 0.2 }))
  if yet ~= false then e:resident() end
  return e
end

--- The ticket of an acquire; o: wait, timeout, ttl, renew, max_hold, min_hold,
--- owner, value, handoffs, units.
function resident.ask(e, key, o)
  return assert(engine.acquire(e, key, o))
end

local scopes, requests = core.scopes(), 0

--- The scope of a request: own(ticket), own_lease(lease); finish() ends it.
function resident.scope()
  local calls = memory.scopes()
  requests = requests + 1
  local s, at_end = calls.begin(core.direct.begin, scopes, requests)
  local scope = {}
  function scope.own(_, ticket) calls.own(core.direct.own, s, ticket) end
  function scope.own_lease(_, lease)
    calls.own(core.direct.own_lease, s, lease)
  end
  function scope.finish() calls.finish(at_end, s) end
  return scope
end

--- Waits for the ticket as an event loop does: for the wakeup descriptor.
function resident.finish(e, ticket, scope)
  if scope then scope:own(ticket) end
  local id = ticket:watch()
  if not id then return ticket:take() end
  local done, poll = false, uv.new_poll(e:wakeup())
  local late = uv.new_timer()
  uv.update_time()
  late:start(10000, 0, function() done = true end)
  poll:start("r", function()
    local ids = {}
    local n = e:completed(ids)
    for i = 1, n do done = done or ids[i] == id end
  end)
  while not done do uv.run("once") end
  poll:close()
  late:close()
  uv.run("nowait")
  assert(ticket:poll(), "the wakeup descriptor is not readable")
  return ticket:take()
end

--- Closes the engine.
function resident.close(e)
  local ticket = e:close(1)
  repeat until core.drive(ticket, 0.2)
  return ticket:take()
end

--- A function that says how many requests the store has seen, but for renewals
--- (what was handed over is renewed if it is held for 50 ms) and for those that
--- ask this.
function resident.counter(e)
  local pings = 0
  return function()
    local renewed, seen
    repeat
      renewed = e:stats().renewed
      seen = resident.finish(e, e:ping())
      pings = pings + 1
    until e:stats().renewed == renewed
    return seen - renewed - pings
  end
end

--- Whether nobody holds the key within five seconds.
function resident.free_soon(e, key)
  local deadline = core.now() + 5
  repeat
    if not resident.finish(e, e:locked(key)) then return true end
  until core.now() > deadline
  return false
end

return resident
