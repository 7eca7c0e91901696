-- The pump: a light thread per store and worker. It reads from a Unix socket
-- that the engine serves, because nginx can wait for sockets only, takes the
-- numbers of completed tickets, and wakes their waiters.
--
-- The first call that waits starts it. It leaves when nobody waits, and the
-- worker exits or nothing was asked for in a second: earlier it would strand a
-- waiter, later it would keep an exiting worker alive.
--
-- It runs in a timer, which nginx may drop without a word, so only its looks
-- show that it is there:
--   client.pump = { seen = when it last looked, or was asked for,
--                   runs = it has looked, patience = seconds }
-- The engine's beats make it look twice a second. A caller that finds no look
-- in `patience` seconds asks for another pump; one that comes late finds the
-- other and leaves. While there is none, waiters look by themselves
-- (look_alone).
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
local BEAT = 0.5 -- the engine's; see csrc/loop/socket.c
local READ_TIMEOUT = 5000 -- ms
local SILENCE = 3 * BEAT -- how long one that has appeared may keep silent

local COMPLETED = direct.Completed()
local completed = direct.completed

-- As engine:completed.
local function take_completed(engine, numbers)
  completed(engine, COMPLETED)
  for i = 1, COMPLETED.count do
    numbers[i] = COMPLETED.numbers[i - 1]
  end
  return COMPLETED.count, COMPLETED.more, COMPLETED.events, COMPLETED.closed
end

--- Wakes the waiters of tickets that are done, and starts the callbacks that
--- are due.
function pump.deliver(client)
  local fresh = event_loop.drain(client, waiters.wake, take_completed)
  if events.may_be_due(client, fresh) then
    callbacks.add(client, events.due(client))
  end
end

local deliver = pump.deliver

-- What is due twice a second.
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

-- Whether there is one, or it may yet appear. The clock of nginx may step.
local function alive(client, now)
  local self = client.pump
  return self and now >= self.seen and now - self.seen < self.patience
end

--- Whether there is one that looks.
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

-- Callbacks of leases that end with their request keep it in an exiting worker
-- too: that request is what keeps the worker. Those of others would keep the
-- worker for as long as they are renewed.
local function expects_events(client, exiting)
  if exiting and not client.owned then
    return false
  end
  return events.expected(client)
end

-- Nobody waits, and nothing else keeps us.
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
  return idle and not expects_events(client, exiting)
end

-- What it does whenever it wakes; true: it has to leave.
local function look(client, self)
  if client.pump ~= self then
    return true -- it was given up, and another one was started
  end
  local now = ngx_now()
  self.seen, self.runs, self.patience = now, true, SILENCE
  deliver(client)
  beat(client, now)
  -- Where nginx has no timer for callbacks it is because of ours.
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

-- Without a socket (no connection or descriptor left): for a beat.
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
  if not ok then -- the waiters will notice that it is gone
    ngx.log(ngx.ERR, "dlock: ", problem)
  end
end

--- Sees to it that there is one; true unless nginx refuses.
function pump.ask(client)
  client.asked = true -- since it last looked
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

--- For a waiter, which is awake, while there is no pump: looks in its place.
function pump.look_alone(client)
  deliver(client)
  beat(client, ngx_now())
end

return pump
