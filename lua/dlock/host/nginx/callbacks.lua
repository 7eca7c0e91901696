-- The user's callbacks (on_lost, on_revoke, on_event), each in a timer of its
-- own: one that sleeps delays no other, and one that calls ngx.exit ends only
-- itself.
--
--   client.calls = { first =, last =, [number] = a function }   a queue
--
-- A timer takes one call from the queue when it runs, not when it is asked for,
-- so a timer that nginx drops loses nothing: the pump looks at every beat
-- whether there are calls left and asks again.
local timers = require "dlock.host.nginx.timers"

local callbacks = {}

local AT_ONCE = 32 -- timers asked for together; each asks for the next one

--- Whether there are calls that were not begun.
---@return boolean
function callbacks.are_due(client)
  local calls = client.calls
  return calls ~= nil and calls.first <= calls.last
end

local run_one

--- Asks nginx for timers for the calls that are due.
---@param client table
---@param limit? integer at most so many
function callbacks.start(client, limit)
  local calls = client.calls
  if calls then
    for _ = 1, math.min(calls.last - calls.first + 1, limit or AT_ONCE) do
      if not timers.start(run_one, client) then
        return
      end
    end
  end
end

--- Makes the first of the calls that are due.
function callbacks.run_next(client)
  local calls = client.calls
  local call = calls[calls.first]
  if call then
    calls[calls.first] = nil
    calls.first = calls.first + 1
    call()
  end
end

function run_one(_, client)
  callbacks.run_next(client)
  callbacks.start(client, 1)
end

--- Puts more of them into the queue.
---@param client table
---@param more function[]
function callbacks.add(client, more)
  local calls = client.calls
  if not calls then
    calls = { first = 1, last = 0 }
    client.calls = calls
  end
  for _, call in ipairs(more) do
    calls.last = calls.last + 1
    calls[calls.last] = call
  end
  callbacks.start(client)
end

return callbacks
