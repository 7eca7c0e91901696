-- The host of cqueues. There is no coroutine of ours: it would keep cq:loop()
-- from ending. Each waiter polls the engine's bell and a condition of its own;
-- whoever hears the bell signals all the others, in whichever controller they
-- are, so that nested loops work too.
--
-- The descriptor is taken out of all controllers when nobody waits any more:
-- the engine may close it, and a controller that still knew its number would
-- be deaf on whatever gets that number next.
local events = require "dlock.host.events"
local news = require "dlock.news"

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
  return events.ready(client, adapter.runs_us(), "call it from a coroutine of"
    .. " a cqueues controller (cq:wrap(function() ... end))")
end

local function signal(condition)
  condition:signal()
end

--- Wakes whoever waits for what got done.
function adapter.deliver(client)
  events.drain(client, signal)
end

--- Returns when the ticket is done.
function adapter.wait(client, ticket)
  local number, others = ticket:watch(nil, true)
  local cqueues, conditions = modules()
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
  local descriptor = client.engine:bell()
  local bell = { pollfd = descriptor, events = "r" }
  while not events.over(client, ticket) do
    cqueues.poll(bell, mine)
    events.drain(client, signal)
    news.deliver(client)
  end
  if waiting[number] == mine then -- it may be another one's meanwhile
    waiting[number] = nil
  end
  if next(waiting) == nil and not client.engine:closed() then
    cqueues.cancel(descriptor)
  end
end

--- Before the engine closes its descriptors.
function adapter.forget(client)
  local descriptor = client.engine:bell()
  if descriptor then
    modules().cancel(descriptor)
  end
  for _, condition in next, client.waiting do
    condition:signal()
  end
end

return adapter
