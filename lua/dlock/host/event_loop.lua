-- What the hosts of event loops share: the table of waiters. The engine reports
-- tickets that got done by their numbers; client.waiting[number] is the waiter,
-- which the host knows how to wake. The coroutine that the engine's wakeup
-- descriptor wakes takes all numbers and wakes all waiters, not only its own.
--
-- A ticket may belong to another engine, on whose lease this client's was
-- attached. It can still be under way when this client's engine is closed,
-- which reports nothing any more: a wait ends with the ticket or the engine.
local protect = require "dlock.protect"

local event_loop = {}

--- client.waiting; the first call puts the engine into resident mode.
---@return table
function event_loop.waiting(client)
  local waiting = client.waiting
  if not waiting then
    waiting = {}
    client.waiting, client.numbers = waiting, {}
    client.engine:resident()
  end
  return waiting
end

--- Calls wake(waiter, client) for each waiter whose ticket got done.
---@param client table
---@param wake fun(waiter: any, client: table)
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
      local number = numbers[i]
      local waiter = waiting[number]
      if waiter then
        waiting[number] = nil
        wake(waiter, client)
      end
    end
  until not more
  if closed then
    for number, waiter in next, waiting do
      waiting[number] = nil
      wake(waiter, client)
    end
  end
  return fresh
end

--- Whether there is nothing more to wait for.
---@param client table
---@param ticket userdata
---@return boolean
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
    return event_loop.BELOW_C .. ": call it outside of that"
  end
  return "unsupported: nothing can wait here: " .. instead
end

--- Before each request: can the engine's wakeup descriptor be waited for here?
---@param client table
---@param running boolean the loop runs us
---@param instead string what to do where nothing can wait
---@return true|nil
---@return string? message
---@return string? code
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
