-- The waiters of event loops: client.waiting[number], by the number of the
-- ticket. The coroutine that the wakeup descriptor wakes takes the numbers of
-- done tickets and wakes their waiters.
--
-- Later waiters for a ticket (a release that another coroutine asked for) are
-- in client.later[number] and wake with the first. A closed engine reports
-- nothing, so a wait ends with it too.
local protect = require "dlock.protect"
local results = require "dlock.results"

local event_loop = {}

--- The first call makes the engine resident.
function event_loop.waiting(client)
  local waiting = client.waiting
  if not waiting then
    waiting = {}
    client.waiting, client.later, client.numbers = waiting, {}, {}
    client.engine:resident()
  end
  return waiting
end

function event_loop.enter(client, number, waiter)
  local waiting, later = client.waiting, client.later
  if waiting[number] == nil then
    waiting[number] = waiter
  else
    later[number] = later[number] or {}
    table.insert(later[number], waiter)
  end
end

--- The number may be another ticket's by now.
function event_loop.leave(client, number, waiter)
  local waiting, list = client.waiting, client.later[number]
  if waiting[number] == waiter then
    waiting[number] = list and table.remove(list, 1)
  end
  for i = list and #list or 0, 1, -1 do
    if list[i] == waiter then
      table.remove(list, i)
    end
  end
  if list and not list[1] then
    client.later[number] = nil
  end
end

local function wake_all(client, number, wake)
  local waiter, list = client.waiting[number], client.later[number]
  client.waiting[number], client.later[number] = nil, nil
  if waiter then
    wake(waiter, client)
  end
  for i = 1, list and #list or 0 do
    wake(list[i], client)
  end
end

function event_loop.drain(client, wake, completed)
  local waiting, numbers, engine =
    client.waiting, client.numbers, client.engine
  local count, more, fresh, closed
  completed = completed or engine.completed
  repeat
    count, more, fresh, closed = completed(engine, numbers)
    for i = 1, count do
      wake_all(client, numbers[i], wake)
    end
  until not more
  if closed then
    for number in next, waiting do
      wake_all(client, number, wake)
    end
  end
  return fresh
end

function event_loop.over(client, ticket)
  return ticket:poll() or client.engine:closed()
end

event_loop.BELOW_C = "nothing can wait below a C function that"
  .. " calls Lua (table.sort, string.gsub, require)"

---@param running boolean the loop runs us
---@param instead string what to do where nothing can wait
function event_loop.ready(client, running, instead)
  if not running or not protect.can_yield() then
    return results.fail("unsupported", (running and protect.in_coroutine()
      and event_loop.BELOW_C .. ": call it outside of that, or "
      or "nothing can wait here: ") .. instead
      .. ", or open the store with host = 'blocking'")
  end
  event_loop.waiting(client)
  local engine = client.engine
  if not engine:wakeup() and not engine:closed() then
    return results.fail("unavailable",
      "no descriptor left: raise the limit of open files")
  end
  return true
end

return event_loop
