-- The pump: a light thread per store and worker. It reads a Unix socket of the
-- engine, because nginx waits for sockets only, and wakes the waiters of done
-- tickets.
--
-- The first call that waits starts it. It leaves when nothing waits and the
-- worker exits or a second passed without a call: earlier would strand a
-- waiter, later keep the worker.
--
-- nginx may drop its timer silently, so only its looks prove it:
--   client.pump = { seen, runs, patience }
--     seen      its last look, or when it was asked for
--     runs      it has looked
--     patience  seconds without a look until a caller asks for another
-- The engine's beats make it look twice a second. A late pump finds the new one
-- and leaves. Without one waiters look.
local callbacks = require "dlock.host.nginx.callbacks"
local direct = require "dlock.host.direct"
local event_loop = require "dlock.host.event_loop"
local events = require "dlock.events"
local timers = require "dlock.host.nginx.timers"
local waiters = require "dlock.host.nginx.waiters"

local pump = {}

local ngx = rawget(_G, "ngx")
local ngx_now = ngx.now

local IDLE = 1 -- seconds
local BEAT = 0.5 -- as in csrc/loop/socket.c
local READ_TIMEOUT = 5000 -- ms
local SILENCE = 3 * BEAT -- of a pump that has appeared

local COMPLETED = direct.Completed()
local completed = direct.completed

-- engine:completed by the FFI.
local function take_completed(engine, numbers)
  completed(engine, COMPLETED)
  for i = 1, COMPLETED.count do
    numbers[i] = COMPLETED.numbers[i - 1]
  end
  return COMPLETED.count, COMPLETED.more, COMPLETED.events, COMPLETED.closed
end

function pump.deliver(client)
  local fresh = event_loop.drain(client, waiters.wake, take_completed)
  if events.may_be_due(client, fresh) then
    callbacks.add(client, events.due(client))
  end
end

local deliver = pump.deliver

local function beat(client, now)
  local last = client.beaten
  if last and now >= last and now - last < BEAT then
    return
  end
  client.beaten = now
  waiters.sweep(client)
  if not callbacks.are_due(client) then
    client.stuck = 0
    return
  end
  client.stuck = client.stuck + 1
  callbacks.start(client)
end

-- It lives, or may yet appear. The clock of nginx may step.
local function alive(client, now)
  local self = client.pump
  return self and now >= self.seen and now - self.seen < self.patience
end

function pump.runs(client)
  return alive(client, ngx_now()) and client.pump.runs or false
end

local function connect(client)
  local path, message = client.engine:serve()
  if not path then return nil, message end
  local socket = ngx.socket.tcp()
  socket:settimeout(READ_TIMEOUT)
  local ok, problem = socket:connect("unix:" .. path)
  if not ok or not client.engine:accept() then
    socket:close()
    client.engine:hang_up()
    return nil, problem
  end
  return socket
end

local function may_leave(client, now)
  if next(client.waiting) ~= nil or callbacks.are_due(client) then
    return false
  elseif client.engine:closed() then
    return true
  end
  local exiting = ngx.worker.exiting()
  if client.asked then
    client.asked, client.last_asked = false, now
  end
  local idle = exiting or now - client.last_asked > IDLE
    or now < client.last_asked
  -- Callbacks of requests, which keep an exiting worker anyway, keep the pump
  -- too. Other leases would keep the worker for as long as they are renewed.
  return idle and not ((client.owned or not exiting)
    and events.expected(client))
end

-- One look; true: leave.
local function look(client, self)
  if client.pump ~= self then
    return true -- another one was started
  end
  local now = ngx_now()
  self.seen, self.runs, self.patience = now, true, SILENCE
  deliver(client)
  beat(client, now)
  -- Our timer may be the one that callbacks lack.
  if client.stuck > 1 then
    callbacks.run_here(client)
  end
  return may_leave(client, now)
end

local function listen(client, self, socket)
  while true do
    local bytes, problem = socket:receiveany(4096)
    if look(client, self) then
      return true
    elseif not bytes and problem ~= "timeout" then
      return false
    end
  end
end

-- For a beat without a socket.
local function look_often(client, self)
  local pause = next(client.waiting) ~= nil and 0.01 or 0.1
  for _ = 1, BEAT / pause do
    ngx.sleep(pause)
    if look(client, self) then
      return true
    end
  end
end

local function run(client, self)
  local leaves = look(client, self)
  while not leaves do
    local socket = connect(client)
    if socket then
      leaves = listen(client, self, socket)
      socket:close()
      if client.pump == self then
        client.engine:hang_up()
      end
    else
      leaves = look_often(client, self)
    end
  end
end

local function main(_, self)
  local client = self.client
  local ok, problem = pcall(run, client, self)
  if client.pump == self then
    client.pump = nil
  end
  if not ok then -- the waiters will find it gone
    ngx.log(ngx.ERR, "dlock: ", problem)
  end
end

--- Ensures a pump; true unless nginx refuses.
function pump.ask(client)
  client.asked = true
  local now, last = ngx_now(), client.pump
  if alive(client, now) then
    return true
  end
  local patience = timers.FIRST_PATIENCE
  if last and not last.runs then
    patience = timers.longer(last.patience)
  end
  local self = { client = client, seen = now, runs = false,
    patience = patience }
  client.last_asked = now
  local ok, message, code = timers.start(main, self)
  if not ok then return nil, message, code end
  client.pump = self
  return true
end

function pump.look_alone(client)
  deliver(client)
  beat(client, ngx_now())
end

return pump
