-- The host of luv. A waiter yields; the engine's bell is a poll handle that is
-- started by the first waiter and stopped with the last, so that nothing of
-- ours keeps the loop alive. Whoever resumes a waiting coroutine in between
-- does no harm: it yields again.
local events = require "dlock.host.events"
local news = require "dlock.news"
local protect = require "dlock.protect"

local adapter = {}

--- Before each request: can its end be waited for here?
function adapter.ready(client)
  return events.ready(client, true, "call it from a coroutine, as in"
    .. " coroutine.wrap(function() ... end)()")
end

-- All of them, whatever one of them does; then the first error, to luv.
local function resume_all(list)
  local problem
  for _, co in ipairs(list) do
    if coroutine.status(co) == "suspended" then
      local ok, why = coroutine.resume(co)
      if not ok and not problem then
        problem = debug.traceback(co, tostring(why))
      end
    end
  end
  if problem then
    error(problem, 0)
  end
end

local function ring(client)
  local list = {}
  events.drain(client, function(co) list[#list + 1] = co end)
  if client.polling and next(client.waiting) == nil then
    client.poll:stop()
    client.polling = false
  end
  -- Callbacks may wait too, so they get a coroutine.
  coroutine.wrap(news.deliver)(client)
  resume_all(list)
end

local function start(client)
  if client.polling then
    return
  end
  if not client.poll then
    client.poll = require("luv").new_poll(client.engine:bell())
  end
  client.poll:start("r", function()
    ring(client)
  end)
  client.polling = true
end

--- Returns when the ticket is done.
function adapter.wait(client, ticket)
  local number = ticket:watch()
  if not number or events.over(client, ticket) then
    return
  end
  -- On 5.1 we may be in a coroutine that protect made: its yields come out of
  -- the one that its owner is, and that one must be resumed.
  client.waiting[number] = protect.owner()
  start(client)
  repeat
    coroutine.yield()
  until events.over(client, ticket)
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
      ring(client)
    end)
  end
end

return adapter
