-- What the hosts of event loops share: who waits for which ticket. The engine
-- tells by number which tickets got done; the number finds the waiter here.
--
-- client.waiting[number] is whatever the host wakes. Whoever hears the bell
-- takes all numbers out and wakes all waiters, its own or not.
--
-- A ticket may be another engine's, on whose lease this client's was attached,
-- and still be under way when this client's engine is closed, which then tells
-- of nothing any more: so the end of a wait is the end of either.
local event_loop = {}

--- client.waiting; the first call puts the engine into resident mode.
---@return table
function event_loop.waiting(client)
  local waiting = client.waiting
  if not waiting then
    waiting = {}
    client.waiting, client.told = waiting, {}
    client.engine:resident()
  end
  return waiting
end

--- Calls wake(waiter, client) for each waiter whose ticket got done.
---@param client table
---@param wake fun(waiter: any, client: table)
---@param completed? function instead of engine.completed
---@return boolean news there are some
function event_loop.drain(client, wake, completed)
  local waiting, told, engine = client.waiting, client.told, client.engine
  local count, more, fresh, closed
  completed = completed or engine.completed
  repeat
    count, more, fresh, closed = completed(engine, told)
    for i = 1, count do
      local number = told[i]
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

local yieldable = coroutine.isyieldable -- Lua 5.3 and later

-- False where a yield would be an error: in the main thread, and below a C
-- function that cannot be yielded across (as in coroutine.close).
local function can_yield()
  if yieldable then
    return yieldable()
  end
  local co, is_main = coroutine.running()
  return co ~= nil and not is_main
end

--- Before each request: can its end be waited for by the engine's bell?
---@param client table
---@param running boolean the loop runs us
---@param instead string what to do where nothing can wait
---@return true|nil
---@return string? message
---@return string? code
function event_loop.ready(client, running, instead)
  if not running or not can_yield() then
    return nil, "unsupported: nothing can wait here: " .. instead
      .. ", or open the store with host = 'blocking'", "unsupported"
  end
  event_loop.waiting(client)
  local engine = client.engine
  if not engine:bell() and not engine:closed() then
    return nil, "unavailable: no descriptor left: raise the limit of open"
      .. " files", "unavailable"
  end
  return true
end

return event_loop
