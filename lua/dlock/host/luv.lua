-- The host of luv. A waiter yields. The first waiter starts a poll handle on
-- the engine's wakeup descriptor, and the last one stops it, so that nothing of
-- ours keeps the loop alive.
--
-- A program may resume a waiting coroutine: that yields again, or goes on if
-- its ticket is done. A program may close one: its ticket is abandoned at once
-- (host.wait). A coroutine that died of an error, or caught it and went on, has
-- closed nothing: its ticket is abandoned when that is done, because
-- adapter.wait is not in its stack, or another wait is noted for it (inside).
--
-- luv calls back on the stack of the Lua thread that loaded it first. A
-- coroutine that did so cannot be resumed, so we do not load luv in one
-- (host.find), and a wait in such a coroutine ends with an error to luv.
local event_loop = require "dlock.host.event_loop"
local events = require "dlock.events"
local protect = require "dlock.protect"
local text = require "dlock.text"

-- An embedded Lua may have no debug library.
local getinfo = debug and debug.getinfo

local adapter = {}

--- Before each request: can its end be waited for here?
function adapter.ready(client)
  return event_loop.ready(client, true, "call it from a coroutine, as in"
    .. " coroutine.wrap(function() ... end)()")
end

--- Each in a coroutine of its own: it may wait too, and for ever.
function adapter.run_callbacks(_, calls)
  for _, call in ipairs(calls) do
    coroutine.wrap(call)()
  end
end

-- Coroutine -> the waiter of the wait that it was in last.
local inside = setmetatable({}, { __mode = "kv" })

-- Whether that wait is still in the stack of its coroutine, near the top (one
-- that died of an error has its stack still, and comes out of nobody any more),
-- and its yields come out of the one that is to be resumed.
local function is_in_wait(waiter)
  local co = waiter.inner
  if inside[co] ~= waiter or protect.owner(co) ~= waiter.co then
    return false
  elseif not getinfo then
    return true
  end
  for level = 0, math.huge do
    local frame = getinfo(co, level, "f")
    if not frame or frame.func == adapter.wait then
      return frame ~= nil
    end
  end
end

local STUCK = "dlock: a coroutine that waits cannot be gone on with, as luv was"
  .. ' loaded in it: require "luv" in the main chunk'

-- The turn of one; nil, or what is wrong.
local function resume(waiter)
  local co, here = waiter.co, coroutine.running()
  local state = waiter.waits and coroutine.status(co)
  if not state then
    return nil
  elseif here == co or here == waiter.inner then -- a stack not to look into
    waiter.ticket:abandon()
    return STUCK
  elseif state == "dead" or not is_in_wait(waiter) then
    waiter.ticket:abandon()
  elseif state == "suspended" then
    local ok, why = coroutine.resume(co)
    if not ok then
      why = text.of_error(why)
      return debug and debug.traceback(co, why) or why
    end
  end -- else it runs, in a debug hook of its wait: that ends by itself
end

-- All of them, whatever one of them does; then the first error, to luv.
local function resume_all(list)
  local problem
  for _, waiter in ipairs(list) do
    local why = resume(waiter)
    problem = problem or why
  end
  if problem then
    error(problem, 0)
  end
end

local function wake(client)
  local list = {}
  event_loop.drain(client, function(waiter) list[#list + 1] = waiter end)
  if client.polling and next(client.waiting) == nil then
    client.poll:stop()
    client.polling = false
  end
  adapter.run_callbacks(client, events.due(client))
  resume_all(list)
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

--- Returns when the ticket is done.
function adapter.wait(client, ticket)
  local number = ticket:watch()
  if not number or event_loop.over(client, ticket) then
    return
  end
  -- On 5.1 we may be in a coroutine that protect made: its yields come out of
  -- the one that its owner is, and that one must be resumed.
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

--- Before the engine closes its descriptors.
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
