-- The host of cqueues. No coroutine of ours stays: it would keep cq:loop() from
-- ending. Each waiter polls the engine's wakeup descriptor and a condition of
-- its own. The waiter that the descriptor wakes signals all others, in
-- whichever controller, so that nested loops work too.
--
-- The engine must not close a descriptor that is polled: the controller would
-- miss the events of the next descriptor with that number. So the engine keeps
-- it while there are pollers (client.pollers), and the last poller takes it out
-- of all controllers. A poller whose coroutine is closed leaves
-- (protect.closing); one that was dropped with its controller leaves the set,
-- whose keys are weak, and the store's close looks for that (adapter.closed).
--
-- A callback is a coroutine of the controller, which starts it in its next
-- step. A wait or a release lets all those begin that its controller was given
-- (client.beginning), so a program that waited for a loss finds on_lost called.
local event_loop = require "dlock.host.event_loop"
local events = require "dlock.events"
local protect = require "dlock.protect"

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

-- The calls that a controller was given and that have not begun, of which its
-- coroutines take one each when they begin: it starts them in no order.
local function new_calls(client, controller)
  client.beginning = client.beginning or setmetatable({}, { __mode = "k" })
  local calls = client.beginning[controller] or { first = 1, last = 0 }
  client.beginning[controller] = calls
  return calls
end

local function begin(calls)
  local call = calls[calls.first]
  calls[calls.first] = nil
  calls.first = calls.first + 1
  call()
end

--- Each in a coroutine of its own. Where we cannot wait for them to begin they
--- begin later.
function adapter.run_callbacks(client, calls)
  if #calls == 0 and not client.beginning then
    return
  end
  local cqueues = modules()
  local controller = cqueues.running()
  if not controller then
    events.run(calls)
    return
  end
  local mine = client.beginning and client.beginning[controller]
  for _, call in ipairs(calls) do
    mine = mine or new_calls(client, controller)
    mine.last = mine.last + 1
    mine[mine.last] = call
    controller:wrap(begin, mine)
  end
  while mine and mine.first <= mine.last and protect.can_yield() do
    cqueues.poll(0)
  end
end

local function signal(condition)
  condition:signal()
end

--- Wakes the waiters of tickets that are done.
function adapter.deliver(client)
  event_loop.drain(client, signal)
end

-- There may be no poller any more.
local function look(client)
  local fd = client.engine:wakeup() -- there is none after a fork
  if fd and next(client.pollers) == nil then
    modules().cancel(fd)
    client.engine:keep_wakeup(false)
  end
end

local function leave(poller)
  local client, pollers = poller.client, poller.client.pollers
  if pollers[poller] then
    pollers[poller] = nil
    look(client)
  end
end

local POLLER = { __close = leave }
local WEAK = { __mode = "k" }

local function poll_until_over(client, ticket, mine)
  local cqueues = modules()
  local wakeup = { pollfd = client.engine:wakeup(), events = "r" }
  repeat
    cqueues.poll(wakeup, mine)
    event_loop.drain(client, signal)
    adapter.run_callbacks(client, events.due(client))
  until event_loop.over(client, ticket)
end

-- Until there is nothing more to wait for.
local function poll_wakeup(client, ticket, mine)
  client.pollers = client.pollers or setmetatable({}, WEAK)
  local poller = setmetatable({ client = client }, POLLER)
  client.pollers[poller] = true
  client.engine:keep_wakeup(true)
  protect.closing(poller, poll_until_over, client, ticket, mine)
  leave(poller)
end

--- The store was closed, by whatever host.
function adapter.closed(client)
  if client.pollers then
    look(client)
  end
end

--- Returns when the ticket is done.
function adapter.wait(client, ticket)
  local number, others = ticket:watch(nil, true)
  local _, conditions = modules()
  local mine = number and conditions.new()
  if number then -- before any other's turn: it may be done meanwhile
    event_loop.enter(client, number, mine)
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
  event_loop.leave(client, number, mine)
end

return adapter
