-- The host of cqueues. There is no coroutine of ours: it would keep cq:loop()
-- from ending. Each waiter polls the engine's wakeup descriptor and a condition
-- of its own. The one that the descriptor wakes signals all the others, in
-- whichever controller they are, so that nested loops work too.
--
-- The engine must not close a descriptor that is polled: a controller updates
-- what it knows of it whenever one of its pollers goes on. So the engine keeps
-- the descriptor while there are pollers (client.pollers), also beyond its own
-- end, of which the descriptor informs them. The last poller takes it out of
-- all controllers first: a controller that still had its number would miss the
-- events of the next descriptor with that number.
local event_loop = require "dlock.host.event_loop"
local events = require "dlock.events"

local adapter = {}

-- Loaded at first use: a program without cqueues never gets here.
local function modules()
  local cqueues = require "cqueues"
  return cqueues, require "cqueues.condition"
end

--- Whether cqueues runs us now.
function adapter.runs_us()
  local cqueues = package.loaded.cqueues
  return type(cqueues) == "table" and cqueues.running() ~= nil
end

--- Before each request: can its end be waited for here?
function adapter.ready(client)
  return event_loop.ready(client, adapter.runs_us(),
    "call it from a coroutine of a cqueues controller"
      .. " (cq:wrap(function() ... end))")
end

local function signal(condition)
  condition:signal()
end

--- Wakes the waiters of tickets that are done.
function adapter.deliver(client)
  event_loop.drain(client, signal)
end

-- Until there is nothing more to wait for.
local function poll_wakeup(client, ticket, mine)
  local cqueues, engine = modules(), client.engine
  local wakeup = { pollfd = engine:wakeup(), events = "r" }
  client.pollers = (client.pollers or 0) + 1
  engine:keep_wakeup(true)
  repeat
    cqueues.poll(wakeup, mine)
    event_loop.drain(client, signal)
    events.deliver(client)
  until event_loop.over(client, ticket)
  client.pollers = client.pollers - 1
  if client.pollers == 0 and engine:wakeup() then -- there is none after a fork
    cqueues.cancel(wakeup.pollfd)
    engine:keep_wakeup(false)
  end
end

--- Returns when the ticket is done.
function adapter.wait(client, ticket)
  local number, others = ticket:watch(nil, true)
  local _, conditions = modules()
  local mine = number and conditions.new()
  local waiting = client.waiting
  if number then -- before any other's turn: it may be done meanwhile
    waiting[number] = mine
  end
  if others then
    adapter.deliver(client)
  end
  if not number then
    return
  end
  if not event_loop.over(client, ticket) then
    poll_wakeup(client, ticket, mine)
  end
  if waiting[number] == mine then -- it may be another one's meanwhile
    waiting[number] = nil
  end
end

return adapter
