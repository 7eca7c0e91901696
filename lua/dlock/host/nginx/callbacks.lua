-- Each callback has a timer of its own: a sleeping one delays no other, and
-- ngx.exit ends only its own.
--
--   client.calls = { first =, last =, [number] = a function }, with
--     asked     timers that were asked for and have not appeared
--     since     when the first of them was asked for, or one appeared
--     patience  seconds from then in which one has to appear
--     width     how many may be asked for together
--
-- A timer takes a call when it runs, so the pump makes up for a dropped one at
-- each beat. After a drop one timer is asked for, with growing patience, until
-- one appears. The width doubles when the queue is empty.
local timers = require "dlock.host.nginx.timers"

local callbacks = {}

local ngx = rawget(_G, "ngx")

local AT_ONCE = 32 -- calls begun together

local function count_due(calls)
  return calls and calls.last - calls.first + 1 or 0
end

function callbacks.are_due(client)
  return count_due(client.calls) > 0
end

-- How many more timers may be asked for. The clock of nginx may step.
local function room(calls, now)
  local waited = now - calls.since
  if calls.asked > 0 and (waited < 0 or waited >= calls.patience) then
    calls.asked, calls.width = 0, 1
    calls.patience = timers.longer(calls.patience)
  end
  return calls.width - calls.asked
end

local run_one

function callbacks.start(client, limit)
  local calls, now = client.calls, ngx.now()
  if not calls then
    return
  end
  local most = math.min(room(calls, now), limit or AT_ONCE)
  for _ = 1, math.min(count_due(calls) - calls.asked, most) do
    if not timers.start(run_one, client) then
      return
    end
    calls.since = calls.asked == 0 and now or calls.since
    calls.asked = calls.asked + 1
  end
end

local function run_next(client)
  local calls = client.calls
  local call = calls[calls.first]
  if call then
    calls[calls.first] = nil
    calls.first = calls.first + 1
    call()
  end
end

--- Begins calls here, where nginx has no timers.
function callbacks.run_here(client)
  for _ = 1, math.min(count_due(client.calls), AT_ONCE) do
    ngx.thread.spawn(run_next, client)
  end
end

-- A timer that was taken for dropped may be late.
function run_one(_, client)
  local calls = client.calls
  calls.asked, calls.since = math.max(calls.asked - 1, 0), ngx.now()
  calls.patience = timers.FIRST_PATIENCE
  run_next(client)
  if count_due(calls) == 0 then
    calls.width = math.min(2 * calls.width, AT_ONCE)
  end
  callbacks.start(client, 1)
end

function callbacks.add(client, more)
  local calls = client.calls
  if not calls then
    calls = { first = 1, last = 0, asked = 0, since = 0, width = AT_ONCE,
      patience = timers.FIRST_PATIENCE }
    client.calls = calls
  end
  for _, call in ipairs(more) do
    calls.last = calls.last + 1
    calls[calls.last] = call
  end
  callbacks.start(client)
end

return callbacks
