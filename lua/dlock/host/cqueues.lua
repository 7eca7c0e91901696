-- cqueues. No coroutine of ours stays, which would keep cq:loop() from ending.
-- Each waiter polls the engine's wakeup descriptor and a condition of its own.
-- The one that the descriptor wakes signals all others, so nested loops work.
--
-- A controller misses events of a new descriptor with the number of a closed
-- one. So the engine keeps its descriptor while there are client.pollers, and
-- the last one takes it out of all controllers. A poller leaves with its
-- coroutine (protect.closing). One dropped with its controller leaves the weak
-- set, so closing the store looks too (adapter.closed).
--
-- A callback is a coroutine, which begins in its controller's next step. Waits
-- and releases let all calls begin (client.beginning), so a program that waited
-- for a loss finds on_lost called.
local event_loop = require "dlock.host.event_loop"
local events = require "dlock.events"
local protect = require "dlock.protect"

local adapter = {}

local WEAK = { __mode = "k" }

local function modules()
  local cqueues = require "cqueues"
  return cqueues, require "cqueues.condition"
end

function adapter.runs_us()
  local cqueues = package.loaded.cqueues
  return type(cqueues) == "table" and cqueues.running() ~= nil
end

function adapter.ready(client)
  return event_loop.ready(client, adapter.runs_us(),
    "call it from a coroutine of a cqueues controller"
      .. " (cq:wrap(function() ... end))")
end

-- Calls that have not begun. A coroutine takes the first, because the
-- controller starts coroutines in no order.
local function begin(calls)
  local call = calls[calls.first]
  calls[calls.first] = nil
  calls.first = calls.first + 1
  call()
end

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
  client.beginning = client.beginning or setmetatable({}, WEAK)
  local mine = client.beginning[controller] or { first = 1, last = 0 }
  client.beginning[controller] = mine
  for _, call in ipairs(calls) do
    mine.last = mine.last + 1
    mine[mine.last] = call
    controller:wrap(begin, mine)
  end
  while mine.first <= mine.last and protect.can_yield() do
    cqueues.poll(0)
  end
end

local function signal(condition)
  condition:signal()
end

function adapter.deliver(client)
  event_loop.drain(client, signal)
end

local function look(client)
  local fd = client.engine:wakeup() -- nil after a fork
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

local function poll_until_over(client, ticket, mine)
  local cqueues = modules()
  local wakeup = { pollfd = client.engine:wakeup(), events = "r" }
  repeat
    cqueues.poll(wakeup, mine)
    event_loop.drain(client, signal)
    adapter.run_callbacks(client, events.due(client))
  until event_loop.over(client, ticket)
end

local function poll_wakeup(client, ticket, mine)
  client.pollers = client.pollers or setmetatable({}, WEAK)
  local poller = setmetatable({ client = client }, POLLER)
  client.pollers[poller] = true
  client.engine:keep_wakeup(true)
  protect.closing(poller, poll_until_over, client, ticket, mine)
  leave(poller)
end

adapter.closed = look

function adapter.wait(client, ticket)
  local number, others = ticket:watch(true)
  local _, conditions = modules()
  local mine = number and conditions.new()
  if number then -- others may end it in their turn
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
