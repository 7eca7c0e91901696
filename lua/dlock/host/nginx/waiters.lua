-- Each handler waits on a semaphore of its own.
--
--   client.waiting[number] = waiter  its ticket is not known to be done
--   client.woken[waiter] = true  it is, but the handler has not gone on
--
-- A killed light thread, or one of an aborted request, runs no code, but nginx
-- takes it out of its semaphore's queue. So the count (posts less waiters)
-- shows it: before a post (wake), while it waits, and after a post (sweep, at
-- each beat). The running handler is in no queue: it is `awake`.
local event_loop = require "dlock.host.event_loop"
local semaphore = require "ngx.semaphore"

local waiters = {}

local SPARES = 256

local spare, spare_count = {}, 0

function waiters.new(client, ticket, number)
  local waiter
  if spare_count > 0 then
    waiter = spare[spare_count]
    spare[spare_count] = nil
    spare_count = spare_count - 1
  else
    waiter = { semaphore = assert(semaphore.new(0)) }
  end
  waiter.ticket, waiter.number = ticket, number
  waiter.awake, waiter.over = true, false
  event_loop.enter(client, number, waiter)
  return waiter
end

function waiters.free(waiter, client)
  client.woken[waiter] = nil
  event_loop.leave(client, waiter.number, waiter)
  waiter.ticket = nil
  if spare_count < SPARES and waiter.semaphore:count() == 0 then
    spare_count = spare_count + 1
    spare[spare_count] = waiter
  end
end

function waiters.sleep(waiter, seconds)
  waiter.awake = false
  waiter.semaphore:wait(seconds)
  waiter.awake = true
end

--- event_loop.drain took it out of `waiting`.
function waiters.wake(waiter, client)
  waiter.over = true
  if waiter.awake then
    return
  elseif waiter.semaphore:count() >= 0 then
    waiter.ticket:abandon()
    return
  end
  client.woken[waiter] = true
  waiter.semaphore:post(1)
end

--- Abandons the tickets of the dead.
function waiters.sweep(client)
  for number, waiter in next, client.waiting do
    if not waiter.awake and waiter.semaphore:count() >= 0 then
      event_loop.leave(client, number, waiter)
      waiter.ticket:abandon()
    end
  end
  for waiter in next, client.woken do
    if waiter.semaphore:count() > 0 then
      client.woken[waiter] = nil
      waiter.ticket:abandon()
    end
  end
end

return waiters
