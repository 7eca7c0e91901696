-- The host of OpenResty (nginx with its Lua module).
--
-- Whoever waits does so on a semaphore. nginx can wait for sockets only, so one
-- light thread per store and worker, the pump, reads from a Unix socket that
-- the engine serves, takes the numbers of what got done, and posts the
-- semaphores. It is started by the first call that waits, and leaves when the
-- worker is exiting or nothing was asked for in a second, *and* nobody waits:
-- one that left earlier would strand a waiter, one that stayed would keep an
-- exiting worker, or every VM under `lua_code_cache off`, alive.
--
-- Waits and leases belong to their request. Lua code is not run when a request
-- is aborted, and the collector comes when it likes; so each request that waits
-- has a scope, which nginx ends in the request's pool clean-up, before the log
-- phase. The scope's number also tells requests apart in the owners of
-- reentrant locks: ngx_lua recycles coroutine objects.
--
-- What C has to do for a wait is called by the FFI, which costs a fraction of
-- a call of a C function.
local core = require "dlock.core"
local events = require "dlock.host.events"
local news = require "dlock.news"

local adapter = { tells = true }

local ngx = rawget(_G, "ngx")

-- Where ngx_lua lets a handler wait. An allow-list: a phase that we do not know
-- is one in which a yield may be fatal.
local MAY_WAIT = {
  rewrite = true, server_rewrite = true, access = true, content = true,
  timer = true, ssl_cert = true, preread = true,
}

local SAFETY_NET = 5 -- seconds after which a waiter looks by itself
local IDLE = 1 -- seconds
local READ_TIMEOUT = 5000 -- ms; there are two beats a second

--- Whether this is nginx.
function adapter.is_here()
  return ngx ~= nil and ngx.get_phase ~= nil
end

if not adapter.is_here() then
  return adapter
end

local direct = require "dlock.host.direct"
local ffi = require "ffi"
local semaphore = require "ngx.semaphore"

local WATCHED, TOLD = direct.Watched(), direct.Told()
local watch, done, completed = direct.watch, direct.done, direct.completed
local find_scope, begin_scope = direct.find, direct.begin
local number_of, own = direct.number, direct.own

-- ---- requests and their scopes ----

-- What nginx must offer for it; without, the collector has to do.
local function find_cleanup()
  local has_base, base = pcall(require, "resty.core.base")
  if not has_base or ngx.config.subsystem ~= "http" then
    return nil -- the requests of the stream module are others
  end
  -- Under a name of our own: somebody else may have declared it, differently.
  pcall(ffi.cdef, [[
    void *dlock_cleanup_add(void *r, size_t size)
      __asm__("ngx_http_cleanup_add");
  ]])
  return pcall(function() return ffi.C.dlock_cleanup_add end)
    and base.get_request or nil
end

local get_request = find_cleanup()
local scopes = core.scopes()

-- The scope of the running request, or nil where there is none to tell.
local function current()
  local r = get_request and get_request()
  if not r then
    return nil
  end
  local scope = find_scope(scopes, r)
  if scope == nil then
    local at_end = ffi.C.dlock_cleanup_add(r, 0)
    scope = at_end ~= nil and begin_scope(scopes, r, at_end) or nil
  end
  return scope ~= nil and scope or nil
end

local owners = setmetatable({}, { __mode = "k" })

--- Who is asking: this coroutine of this request.
---@return any
function adapter.owner()
  local scope, co = current(), coroutine.running()
  if not scope or not co then
    return co
  end
  local owner, request = owners[co], number_of(scope)
  if not owner or owner.request ~= request then
    owner = { request = request }
    owners[co] = owner
  end
  return owner
end

-- ---- the pump ----

local function wake(waiter)
  waiter:post(1)
end

-- As engine:completed.
local function take_completed(engine, told)
  completed(engine, TOLD)
  for i = 1, TOLD.count do
    told[i] = TOLD.numbers[i - 1]
  end
  return TOLD.count, TOLD.more, TOLD.news, TOLD.closed
end

local function tell(_, client)
  news.deliver(client)
end

--- Wakes whoever waits for what got done.
function adapter.deliver(client)
  if events.drain(client, wake, take_completed) then
    ngx.timer.at(0, tell, client)
  end
end

local deliver = adapter.deliver

local function connect(client)
  local path, message = client.engine:serve()
  if not path then
    return nil, message
  end
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

-- Nobody waits, and nothing else keeps us.
local function may_leave(client)
  if next(client.waiting) ~= nil then
    return false
  elseif client.engine:closed() or ngx.worker.exiting() then
    return true
  end
  local now = core.now()
  if client.asked then
    client.asked, client.last_asked = false, now
  end
  return now - client.last_asked > IDLE and not news.expected(client)
end

local function listen(client, socket)
  while true do
    local bytes, problem = socket:receiveany(4096)
    deliver(client)
    if may_leave(client) then
      return true
    elseif not bytes and problem ~= "timeout" then
      return false
    end
  end
end

local function pump(_, client)
  local leaves
  repeat
    local socket = connect(client)
    if socket then
      leaves = listen(client, socket)
      socket:close()
      client.engine:hang_up()
    else
      ngx.sleep(0.1) -- out of descriptors, say
      deliver(client)
      leaves = may_leave(client)
    end
  until leaves
  client.pumping = false
end

local function start_pump(client)
  client.asked = true -- since the pump last looked
  if client.pumping then
    return true
  end
  local ok, problem = ngx.timer.at(0, pump, client)
  if not ok then
    return nil, "unavailable: no timer to be had from nginx ("
      .. tostring(problem) .. "); raise lua_max_pending_timers and"
      .. " lua_max_running_timers", "unavailable"
  end
  client.pumping = true
  return true
end

-- ---- waiting ----

-- Where something else than a timer is at hand.
local AFTER_THE_FACT = "lease:release_later() works here; for anything else use"
  .. " a timer (ngx.timer.at(0, ...))"
local INSTEAD = {
  init = "use init_worker_by_lua with a timer (ngx.timer.at(0, ...))",
  set = "use rewrite_by_lua or access_by_lua",
  balancer = "use access_by_lua",
  ssl_client_hello = "use ssl_certificate_by_lua or access_by_lua",
  ssl_session_fetch = "use ssl_certificate_by_lua or access_by_lua",
  header_filter = AFTER_THE_FACT, body_filter = AFTER_THE_FACT,
  log = AFTER_THE_FACT,
  exit_worker = "lease:release_later() works here, and what the worker still"
    .. " holds is released when it ends",
}
local A_TIMER = "use a timer (ngx.timer.at(0, ...))"

--- Before each request: can its end be waited for here?
---@return true|nil
---@return string? message
---@return string? code
function adapter.ready(client)
  local phase = ngx.get_phase()
  if not MAY_WAIT[phase] then
    return nil, ("unsupported: nothing can wait in the %s phase; %s")
      :format(tostring(phase), INSTEAD[phase] or A_TIMER), "unsupported"
  end
  events.waiting(client)
  return start_pump(client)
end

--- Callbacks are waited for although nobody waits for a ticket.
function adapter.listen(client)
  local phase = ngx.get_phase()
  if phase ~= "init" and phase ~= "exit_worker" then
    events.waiting(client)
    start_pump(client)
  end
end

local spare, spare_count = {}, 0

local function take_semaphore()
  if spare_count > 0 then
    local one = spare[spare_count]
    spare[spare_count] = nil
    spare_count = spare_count - 1
    return one
  end
  return semaphore.new(0)
end

-- Only one that was posted (once for each waiter) and waited for.
local function keep_semaphore(one)
  if spare_count < 256 then
    spare_count = spare_count + 1
    spare[spare_count] = one
  end
end

-- Nobody posted it in that time. False: nobody will any more.
local function wait_on(client, ticket, mine)
  repeat
    start_pump(client)
    if events.over(client, ticket) then
      return false
    end
  until mine:wait(SAFETY_NET)
  return true
end

--- Returns when there is nothing more to wait for, and whether the ticket is
--- done.
function adapter.wait(client, ticket)
  watch(ticket, WATCHED)
  local number, others = WATCHED.number, WATCHED.others
  local scope = WATCHED.leaves and client.scope == "request" and current()
  if scope then
    own(scope, ticket)
  end
  local mine
  if number > 0 then -- before any other's turn: it may be done meanwhile
    mine = take_semaphore()
    client.waiting[number] = mine
  end
  if others then
    deliver(client)
  end
  if mine then
    if not mine:wait(SAFETY_NET) and not wait_on(client, ticket, mine) then
      return false
    end
    keep_semaphore(mine)
  end
  return done(ticket) ~= 0
end

return adapter
