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
-- lends a scope to nginx, which ends it in the request's pool clean-up, before
-- the log phase. The scope's number also tells requests apart in the owners of
-- reentrant locks: ngx_lua recycles coroutine objects.
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
local FIRST_SWEEP = 64

--- Whether this is nginx.
function adapter.is_here()
  return ngx ~= nil and ngx.get_phase ~= nil
end

if not adapter.is_here() then
  return adapter
end

local semaphore = require "ngx.semaphore"

-- ---- requests and their scopes ----

-- What nginx must offer for it; without, the collector has to do.
local function find_cleanup()
  local ok, ffi = pcall(require, "ffi")
  local has_base, base = pcall(require, "resty.core.base")
  if not ok or not has_base then
    return nil
  end
  -- Under a name of our own: somebody else may have declared it, differently.
  pcall(ffi.cdef, [[
    typedef struct dlock_cleanup_s {
      uintptr_t handler, data; /* addresses, as core.lend() gives them */
      struct dlock_cleanup_s *next;
    } dlock_cleanup_t;
    dlock_cleanup_t *dlock_cleanup_add(void *r, size_t size)
      __asm__("ngx_http_cleanup_add");
  ]])
  if not pcall(function() return ffi.C.dlock_cleanup_add end) then
    return nil
  end
  return ffi, base.get_request
end

local ffi, get_request = find_cleanup()

-- Once: a type that is written as text is a new type each time, and there is
-- room for 65536.
local uintptr = ffi and ffi.typeof("uintptr_t")

-- By the address of the request: { scope =, owners = (once asked for) }. A
-- scope that has not ended proves that the address is still that request's.
local requests, request_count, request_limit = {}, 0, FIRST_SWEEP

local function sweep()
  local count = 0
  for address, request in next, requests do
    if request.scope:ended() then
      requests[address] = nil
    else
      count = count + 1
    end
  end
  request_count = count
  request_limit = math.max(FIRST_SWEEP, 2 * count)
end

local WEAK_KEYS = { __mode = "k" }

local function lend(r)
  local scope = core.scope()
  local cleanup = ffi.C.dlock_cleanup_add(r, 0)
  if cleanup == nil then
    return nil
  end
  cleanup.handler, cleanup.data = scope:lend()
  return scope
end

-- The running request, or nil where there is none to tell.
local function current()
  local r = get_request and get_request()
  if not r then
    return nil
  end
  local address = tonumber(ffi.cast(uintptr, r))
  local request = requests[address]
  if request and not request.scope:ended() then
    return request
  end
  local scope = lend(r)
  if not scope then
    return nil
  end
  if not request then
    request_count = request_count + 1
    if request_count > request_limit then
      sweep()
      request_count = request_count + 1
    end
  end
  request = { scope = scope, owners = nil }
  requests[address] = request
  return request
end

--- Who is asking: this coroutine of this request.
---@return any
function adapter.owner()
  local request, co = current(), coroutine.running()
  if not request or not co then
    return co
  end
  request.owners = request.owners or setmetatable({}, WEAK_KEYS)
  local owner = request.owners[co]
  if not owner then
    owner = {}
    request.owners[co] = owner
  end
  return owner
end

-- ---- the pump ----

local function wake(waiter)
  waiter:post(1)
end

local function tell(_, client)
  news.deliver(client)
end

--- Wakes whoever waits for what got done.
function adapter.deliver(client)
  if events.drain(client, wake) then
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

--- Returns when the ticket is done.
function adapter.wait(client, ticket)
  local number, others, leaves = ticket:watch(nil, true)
  local request = leaves and client.scope == "request" and current()
  if request then
    request.scope:add(ticket)
  end
  local mine
  if number then -- before any other's turn: it may be done meanwhile
    mine = take_semaphore()
    client.waiting[number] = mine
  end
  if others then
    deliver(client)
  end
  if not number then
    return
  end
  local woken
  repeat
    woken = mine:wait(SAFETY_NET)
    if not woken then
      start_pump(client)
    end
  until woken or events.over(client, ticket)
  if woken then
    keep_semaphore(mine)
  end
end

return adapter
