-- luv. A waiter yields. The first one starts a poll handle on the engine's
-- wakeup descriptor, and the last one stops it, so nothing of ours keeps the
-- loop alive.
--
-- A program may resume a waiting coroutine, which yields again, or close it,
-- which abandons the ticket at once (host.wait). An error closes nothing: the
-- ticket is abandoned when done, because adapter.wait is not in the stack, or
-- `inside` has another wait.
--
-- luv calls back on the stack of the thread that loaded it, which cannot be
-- resumed. So dlock loads luv in no coroutine (host.find), and a wait in such a
-- one ends with an error to luv.
local event_loop = require "dlock.host.event_loop"
local events = require "dlock.events"
local protect = require "dlock.protect"
local text = require "dlock.text"

local adapter = {}

function adapter.ready(client)
  return event_loop.ready(client, true, "call it from a coroutine, as in"
    .. " coroutine.wrap(function() ... end)()")
end

--- A callback may wait for ever.
function adapter.run_callbacks(_, calls)
  for _, call in ipairs(calls) do
    coroutine.wrap(call)()
  end
end

-- Coroutine -> the waiter of its last wait.
local inside = setmetatable({}, { __mode = "kv" })

local WAIT = {} -- adapter.wait

local STUCK = "dlock: a coroutine that waits cannot be gone on with, as luv was"
  .. ' loaded in it: require "luv" in the main chunk'

-- Resumes one, if the wait is still in its coroutine's stack (a dead one has
-- that too), and its yields reach the coroutine to be resumed. Gives what is
-- wrong.
local function resume(waiter)
  local co, inner, here = waiter.co, waiter.inner, coroutine.running()
  local state = waiter.waits and coroutine.status(co)
  if not state then
    return nil
  elseif here == co or here == inner then -- its stack is in use
    waiter.ticket:abandon()
    return STUCK
  elseif state == "dead" or inside[inner] ~= waiter
      or protect.owner(inner) ~= co
      or protect.is_in_stack(WAIT, inner) == false then
    waiter.ticket:abandon()
  elseif state == "suspended" then
    local ok, why = coroutine.resume(co)
    if not ok then
      why = text.of_error(why)
      return debug and debug.traceback(co, why) or why
    end
  end -- else it runs, in a debug hook of its wait, and goes on by itself
end

local function wake(client)
  local list = {}
  event_loop.drain(client, function(waiter) list[#list + 1] = waiter end)
  if client.polling and next(client.waiting) == nil then
    client.poll:stop()
    client.polling = false
  end
  adapter.run_callbacks(client, events.due(client))
  local problem
  for _, waiter in ipairs(list) do
    local why = resume(waiter)
    problem = problem or why
  end
  if problem then -- to luv
    error(problem, 0)
  end
end

local function start(client)
  if client.polling then
    return
  end
  if not client.poll then
    client.poll = require("luv").new_poll(client.engine:wakeup())
  end
  client.poll:start("r", function()
    wake(client)
  end)
  client.polling = true
end

function adapter.wait(client, ticket)
  local number = ticket:watch()
  if not number or event_loop.over(client, ticket) then
    return
  end
  -- On 5.1 protect may have made our coroutine; its owner gets the yields.
  local mine = { co = protect.owner(), inner = coroutine.running(),
    ticket = ticket, waits = true }
  event_loop.enter(client, number, mine)
  inside[mine.inner] = mine
  start(client)
  repeat
    coroutine.yield()
  until event_loop.over(client, ticket)
  mine.waits, inside[mine.inner] = false, nil
  event_loop.leave(client, number, mine)
end

WAIT[adapter.wait] = true

function adapter.forget(client)
  if client.poll then
    client.poll:stop()
    client.poll:close()
    client.poll, client.polling = nil, false
  end
  if next(client.waiting) ~= nil then
    local timer = require("luv").new_timer()
    timer:start(0, 0, function()
      timer:close()
      wake(client)
    end)
  end
end

return adapter
