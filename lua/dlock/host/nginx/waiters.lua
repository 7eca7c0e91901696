-- The waiters in nginx: each handler waits on a semaphore of its own.
--
--   client.waiting[number] = waiter    its ticket is not known to be done yet
--   client.woken[waiter] = true        it is, but the handler has not gone on
--
-- A light thread can be killed, and a request aborted, while it waits: none of
-- its code runs then, and its ticket would be granted to nobody. But nginx
-- takes it out of its semaphore's queue, so the count of the semaphore (posts
-- less waiters) says that nobody waits. It is looked at in three places, which
-- together leave nothing out:
--   wake    before the post: killed earlier. Its grant is given back at once.
--   sweep   of those in `waiting`: killed while it waits. The wait is
--           withdrawn, at the next beat of the pump.
--   sweep   of those in `woken`: killed after the post, before it went on.
-- The one waiter that does not stand in its semaphore's queue and lives is the
-- handler that is running at that time: it says so by `awake`.
local event_loop = require "dlock.host.event_loop"
local semaphore = require "ngx.semaphore"

local waiters = {}

local SPARES = 256

local spare, spare_count = {}, 0

--- A waiter for the ticket of that number, which is awake.
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

--- The handler goes on and needs it no longer.
function waiters.free(waiter, client)
  client.woken[waiter] = nil
  event_loop.leave(client, waiter.number, waiter)
  waiter.ticket = nil
  if spare_count < SPARES and waiter.semaphore:count() == 0 then
    spare_count = spare_count + 1
    spare[spare_count] = waiter
  end
end

--- Sleeps until it is woken, at most so many seconds.
function waiters.sleep(waiter, seconds)
  waiter.awake = false
  waiter.semaphore:wait(seconds)
  waiter.awake = true
end

--- Its ticket is done: event_loop.drain has taken it out of `waiting`.
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

--- Abandons what the dead waited for.
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
