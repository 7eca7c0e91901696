-- Plain Lua: a waiting call runs the loop on its own thread, in slices. Ctrl-C
-- sets a debug hook, which raises an error as soon as Lua code runs: then the
-- place in the queue is withdrawn, and a grant that crossed it is given back.
-- Between slices callbacks run, which may end the wait.
local core = require "dlock.core"
local events = require "dlock.events"

local SLICE, WITHDRAW = 0.2, 0.1 -- seconds; Ctrl-C takes both at most

local blocking = { own_events = true }

local core_drive = core.drive
local listening, may_be_due = events.listening, events.may_be_due

local function drive(client, ticket)
  local done, fresh = core_drive(ticket, SLICE)
  while not done do
    events.deliver_all(client, true)
    done, fresh = core_drive(ticket, SLICE)
  end
  return fresh
end

local jit = rawget(_G, "jit")
if jit then
  jit.off(drive) -- compiled code ignores hooks
end

-- A grant that still comes is released.
local function withdraw(ticket)
  ticket:cancel()
  core_drive(ticket, WITHDRAW)
  ticket:abandon()
end

function blocking.run_callbacks(_, calls)
  events.run(calls)
end

--- Returns when the ticket is done, or raises a debug hook's error.
function blocking.wait(client, ticket)
  local ok, fresh = pcall(drive, client, ticket)
  if not ok then
    pcall(withdraw, ticket)
    error(fresh, 0)
  end
  if listening.any or may_be_due(client, fresh) then
    events.deliver_all(client, fresh)
  end
end

return blocking
