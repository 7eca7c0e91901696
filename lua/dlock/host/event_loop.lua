-- What the hosts of event loops share: the table of waiters. The engine reports
-- tickets that are done by number; client.waiting[number] is the waiter, which
-- its host can wake. The coroutine that the wakeup descriptor wakes takes all
-- numbers, and wakes all waiters.
--
-- Two may wait for one ticket, such as a release that another coroutine asked
-- for: later ones stand in the list client.later[number], and wake with the
-- first. A closed engine reports nothing, so a wait ends with it too.
local protect = require "dlock.protect"

local event_loop = {}

--- client.waiting; the first call puts the engine into resident mode.
function event_loop.waiting(client)
  local waiting = client.waiting
  if not waiting then
    waiting = {}
    client.waiting, client.later, client.numbers = waiting, {}, {}
    client.engine:resident()
  end
  return waiting
end

--- The waiter waits for the ticket of that number.
function event_loop.enter(client, number, waiter)
  local waiting, later = client.waiting, client.later
  if waiting[number] == nil then
    waiting[number] = waiter
  else
    later[number] = later[number] or {}
    table.insert(later[number], waiter)
  end
end

--- It does no longer, if it did: the number may be another ticket's meanwhile.
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

--- Calls wake(waiter, client) for each waiter whose ticket got done.
---@param completed? function instead of engine.completed
---@return boolean events the engine has some
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

--- Whether there is nothing more to wait for.
function event_loop.over(client, ticket)
  return ticket:poll() or client.engine:closed()
end

--- What is said where a coroutine cannot be left.
event_loop.BELOW_C = "unsupported: nothing can wait below a C function that"
  .. " calls Lua (table.sort, string.gsub, require)"

-- Where it could wait but for such a function, and else.
local function refuse(running, instead)
  local co, is_main = coroutine.running()
  if running and co and not is_main then
    return event_loop.BELOW_C .. ": call it outside of that, or " .. instead
  end
  return "unsupported: nothing can wait here: " .. instead
end

--- Before each request: can the engine's wakeup descriptor be waited for here?
---@param running boolean the loop runs us
---@param instead string what to do where nothing can wait
function event_loop.ready(client, running, instead)
  if not running or not protect.can_yield() then
    return nil, refuse(running, instead)
      .. ", or open the store with host = 'blocking'", "unsupported"
  end
  event_loop.waiting(client)
  local engine = client.engine
  if not engine:wakeup() and not engine:closed() then
    return nil, "unavailable: no descriptor left: raise the limit of open"
      .. " files", "unavailable"
  end
  return true
end

return event_loop
