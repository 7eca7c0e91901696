-- OpenResty. A handler waits on a semaphore (nginx/waiters.lua), which the pump
-- posts (nginx/pump.lua), or a handler that ended the ticket, or, without a
-- pump, a waiter.
--
-- Waits and leases belong to their request. An aborted one runs no Lua, so each
-- that waits has a scope, which its pool's clean-up ends before the log phase.
-- ngx_lua recycles coroutines, so an owner is a coroutine and its scope's
-- number. A scope begins only where waiting is allowed: elsewhere it may never
-- end, and the next request at that address would find it.
--
-- Below a C function that calls Lua, nginx would raise an error and leave the
-- waiter in its semaphore's queue. So whether a handler can yield is asked
-- first.
local core = require "dlock.core"
local event_loop = require "dlock.host.event_loop"
local results = require "dlock.results"

local adapter = { own_events = true }

local ngx = rawget(_G, "ngx")

-- An allow-list: in an unknown phase a yield may be fatal.
local MAY_WAIT = {
  rewrite = true, server_rewrite = true, access = true, content = true,
  timer = true, ssl_cert = true, preread = true,
}

local SAFETY_NET = 1 -- seconds until a waiter looks by itself
-- Seconds between looks without a pump. After a while one waiter looks for all.
local FIRST_LOOK, LAST_LOOK, OTHERS_LOOK = 0.001, 0.016, 0.1

--- Whether this is nginx. A thread of ngx.run_worker_thread has no timers:
--- there plain Lua waits.
function adapter.is_here()
  return ngx ~= nil and ngx.get_phase ~= nil and ngx.timer ~= nil
end

if not adapter.is_here() then
  return adapter
end

local callbacks = require "dlock.host.nginx.callbacks"
local can_yield = core.can_yield
local direct = require "dlock.host.direct"
local ffi = require "ffi"
local pump = require "dlock.host.nginx.pump"
local waiters = require "dlock.host.nginx.waiters"

local WATCHED = direct.Watched()
local watch, done = direct.watch, direct.done
local find_scope, begin_scope = direct.find, direct.begin
local number_of, own = direct.number, direct.own
local own_lease = direct.own_lease

-- ---- requests and their scopes ----

-- Without these the collector ends what requests leave.
local function find_cleanup()
  local has_base, base = pcall(require, "resty.core.base")
  if not has_base or ngx.config.subsystem ~= "http" then
    return nil -- the stream module has other requests
  end
  -- Our own name, as other code may declare it differently.
  pcall(ffi.cdef, [[
    void *dlock_cleanup_add(void *r, size_t size)
      __asm__("ngx_http_cleanup_add");
  ]])
  return pcall(function() return ffi.C.dlock_cleanup_add end)
    and base.get_request or nil
end

local get_request = find_cleanup()
local scopes = core.scopes()

local function current()
  local r = get_request and get_request()
  if not r then
    return nil
  end
  local scope = find_scope(scopes, r)
  if scope == nil and MAY_WAIT[ngx.get_phase()] then
    local at_end = ffi.C.dlock_cleanup_add(r, 0)
    scope = at_end ~= nil and begin_scope(scopes, r, at_end) or nil
  end
  return scope ~= nil and scope or nil
end

local owners = setmetatable({}, { __mode = "k" })

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

-- ---- waiting ----

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
local BELOW_C = event_loop.BELOW_C .. "; " .. AFTER_THE_FACT
local A_TIMER = "use a timer (ngx.timer.at(0, ...))"

local function prepare(client)
  if not client.waiting then
    event_loop.waiting(client)
    client.woken, client.stuck, client.looked = {}, 0, 0
    client.owned = client.scope == "request" and get_request ~= nil
  end
end

---@param held? boolean it gives something back, which works without a pump
function adapter.ready(client, held)
  local phase = ngx.get_phase()
  if not MAY_WAIT[phase] then
    return results.fail("unsupported", ("nothing can wait in the %s phase; %s")
      :format(tostring(phase), INSTEAD[phase] or A_TIMER))
  end
  if not can_yield() then
    return results.fail("unsupported", BELOW_C)
  end
  prepare(client)
  local ok, message, code = pump.ask(client)
  return ok or held, message, code
end

function adapter.listen(client)
  local phase = ngx.get_phase()
  if phase ~= "init" and phase ~= "exit_worker" then
    prepare(client)
    pump.ask(client)
  end
end

function adapter.own(client, lease)
  local scope = client.scope == "request" and current()
  if scope then
    own_lease(scope, lease)
  end
end

adapter.deliver = pump.deliver

function adapter.run_callbacks(client, calls)
  callbacks.add(client, calls)
end

local deliver = pump.deliver

-- Looks, or leaves that to another waiter. Gives the next pause, and the sleep.
local function look_alone(client, mine, pause)
  local now, last = ngx.now(), client.looked
  local late = pause == LAST_LOOK
  if late and client.looker ~= mine and now >= last
      and now - last < OTHERS_LOOK then
    return pause, OTHERS_LOOK
  end
  client.looker, client.looked = late and mine or client.looker, now
  pump.look_alone(client)
  pause = math.min(2 * pause, LAST_LOOK)
  return pause, pause
end

local function sleep(client, ticket, mine)
  local pause, seconds = FIRST_LOOK, FIRST_LOOK
  while not mine.over do
    waiters.sleep(mine, pump.runs(client) and SAFETY_NET or seconds)
    if mine.over or event_loop.over(client, ticket) then
      return
    end
    pump.ask(client)
    if not pump.runs(client) then
      pause, seconds = look_alone(client, mine, pause)
    end
  end
end

---@return boolean done
function adapter.wait(client, ticket)
  watch(ticket, WATCHED)
  local number, others = WATCHED.number, WATCHED.others
  local scope = WATCHED.leaves and client.scope == "request" and current()
  if scope then
    own(scope, ticket)
  end
  local mine
  if number > 0 then -- others may end it in their turn
    mine = waiters.new(client, ticket, number)
  end
  if others then
    deliver(client)
  end
  if mine then
    sleep(client, ticket, mine)
    waiters.free(mine, client)
  end
  return done(ticket) ~= 0
end

return adapter
