-- Brings losses and revocations to Lua's own thread: the engine queues events,
-- and the next call that waits runs the callbacks.
--
-- Callbacks live in the slot of their lease. client.watched finds these leases
-- by a number, and is swept when their number has doubled:
--   leases[number]   weak, so no callback gets a lease that is being collected
--   kept[number]     leases that end with their request (core.owned)
-- The engine's thread tells of a deadline a moment after it, and Lua may see it
-- first. None of these leases has its deadline before client.watched.look_at.
local core = require "dlock.core"
local misuse = require "dlock.misuse"
local options = require "dlock.options"
local protect = require "dlock.protect"
local text = require "dlock.text"

--- What on_event is called with.
---@class dlock.event
---@field kind string
---@field message string
---@field key? string of the lease or lock that it is about

local events = {}

-- Each wait on Lua's own thread calls what is due of all these clients.
--   engines  engines of clients with functions to call. Weak tables lose
--            userdata before finalisation, except at the end of the Lua state:
--            an engine found then is closed.
--   any      some engine or dropped lease may be there
--   dropped  clients with collected leases to report, kept alive for that
local listening = { last = 0, any = false, dropped = {},
  engines = setmetatable({}, { __mode = "v" }) }

events.listening = listening

local DROPPED = "dropped: the lease on %s was collected while it was held, so"
  .. " it lasts for the rest of its ttl: keep it in a variable and release it"

local HANDLERS = { lost = "on_lost", revoked = "on_revoke" }
local FIRST_SWEEP = 64

function events.new()
  return { last = 0, late = false, listed = false, count = 0,
    look_at = math.huge, limit = FIRST_SWEEP,
    leases = setmetatable({}, { __mode = "v" }), kept = {} }
end

local ngx = rawget(_G, "ngx")

function events.show(problem)
  if ngx and ngx.log and ngx.get_phase then
    ngx.log(ngx.ERR, "dlock: ", problem)
  else
    core.write(io.stderr.write, io.stderr, "dlock: ", problem, "\n")
  end
end

local show = events.show

function events.event(client, kind, message, key)
  if not client.on_event then
    return
  end
  local ok, problem = protect.call(client.on_event,
    { kind = kind, message = message, key = key })
  if not ok then
    show(("error in on_event: %s (the event was: %s)"):format(
      text.of_error(problem), message))
  end
end

--- To on_event with the first call that waits, else shown at once.
function events.insecure(client, message)
  if client.on_event then
    client.insecure, client.watched.late = message, true
  else
    show(message)
  end
end

function events.failed(client, message, key)
  if client.on_event then
    events.event(client, "callback", message, key)
  else
    show(message)
  end
end

function events.raised(client, name, problem, key)
  events.failed(client, ("error in a callback of %s: %s"):format(name,
    text.of_error(problem)), key)
end

-- Adds the callbacks of an event: a lease has one event of each kind.
local function add(due, client, lease, kind, message)
  local slot, name = core.slot(lease), HANDLERS[kind]
  local callbacks = name and slot[name]
  if not callbacks then
    return
  end
  slot[name] = nil
  for _, fn in ipairs(callbacks) do
    due[#due + 1] = function()
      local ok, problem = protect.call(fn, lease, message)
      if not ok then
        events.raised(client, name, problem, lease.key)
      end
    end
  end
end

-- The next lease with callbacks; removes those that were given up or have
-- ended.
local function next_watched(watched, number)
  local lease
  repeat
    number, lease = next(watched.leases, number)
    if lease == nil then
      return nil
    end
    local over = core.given_up(lease)
      or not (core.held(lease) or core.lost(lease))
    if over then
      watched.leases[number], watched.kept[number] = nil, nil
    end
  until not over
  return number, lease
end

local function sweep(watched)
  local count = 0
  for _ in next_watched, watched do
    count = count + 1
  end
  watched.count, watched.limit = count, math.max(FIRST_SWEEP, 2 * count)
end

-- A hold may have several handles.
local function watched_by_id(client)
  local by_id = {}
  for _, lease in next_watched, client.watched do
    local id = core.id(lease)
    by_id[id] = by_id[id] or {}
    table.insert(by_id[id], lease)
  end
  return by_id
end

local function add_items(due, client, items)
  local by_id = watched_by_id(client)
  for _, item in ipairs(items) do
    local leases = item.lease and by_id[item.lease] or {}
    if client.on_event then
      due[#due + 1] = function()
        events.event(client, item.kind, item.message, item.key)
      end
    end
    for _, lease in ipairs(leases) do
      add(due, client, lease, item.kind, item.message)
    end
    if HANDLERS[item.kind] then
      client.watched.late = true -- the engine may have dropped others
    end
  end
end

local function add_dropped(due, client)
  for _, key in ipairs(listening.dropped[client.hub] or {}) do
    due[#due + 1] = function()
      events.event(client, "dropped", DROPPED:format(text.quote(key)), key)
    end
  end
  listening.dropped[client.hub] = nil
end

local function add_lost(due, client, lease)
  add(due, client, lease, "lost", ("lost: %s is not held any more: %s")
    :format(text.quote(lease.key), core.lost(lease)))
end

local function add_revoked(due, client, lease)
  add(due, client, lease, "revoked", "somebody asked for the lock")
end

-- Adds calls whose event came before the callback was noted, or was one too
-- many for the engine.
local function add_late(due, client)
  client.watched.late = false
  for _, leases in pairs(watched_by_id(client)) do
    for _, lease in ipairs(leases) do
      if core.lost(lease) then
        add_lost(due, client, lease)
      elseif core.revoked(lease) then
        add_revoked(due, client, lease)
      end
    end
  end
  add_dropped(due, client)
end

-- Some deadline may have passed.
local function look(watched)
  watched.look_at = math.huge
  for _, lease in next_watched, watched do
    local wanted = core.slot(lease).on_lost -- and was not called yet
    if wanted and core.lost(lease) then
      watched.late = true
    elseif wanted then
      watched.look_at = math.min(watched.look_at,
        core.now() + core.remaining(lease))
    end
  end
end

-- Whether there is news without an event.
local function is_late(watched)
  if watched.look_at ~= math.huge and core.now() >= watched.look_at then
    look(watched)
  end
  return watched.late
end

---@param fresh boolean the engine has events
function events.may_be_due(client, fresh)
  return fresh or is_late(client.watched)
end

--- The deadline of a lease may be nearer than it was.
function events.nearer(client)
  if client.watched.look_at ~= math.huge then
    client.watched.look_at = 0
  end
end

local may_be_due = events.may_be_due

function events.due(client)
  local due, items = {}, client.engine:events()
  if client.insecure then -- before it connects
    local message = client.insecure
    client.insecure = nil
    due[1] = function() events.event(client, "insecure", message) end
  end
  if listening.dropped[client.hub] then -- dropped before the loss
    add_dropped(due, client)
  end
  if items then
    add_items(due, client, items)
  end
  if is_late(client.watched) then
    add_late(due, client)
  end
  if client.new_password and client.engine:asks() then
    due[#due + 1] = client.new_password
  end
  return due
end

--- Calls for what the release was perhaps the first to see.
function events.due_at_release(client, lease, lost)
  local due = {}
  if core.revoked(lease) then
    add_revoked(due, client, lease)
  end
  if lost then
    add_lost(due, client, lease)
  end
  return due
end

--- Whether a release may mean calls. Callers try client.watched.count first.
function events.has_callbacks(client)
  return next(client.watched.leases) ~= nil
end

--- Makes these calls. The engine's loop must not be running.
function events.run(calls)
  for _, call in ipairs(calls) do
    call()
  end
end

local function deliver(client)
  events.run(events.due(client))
end

local function list(client)
  if not client.watched.listed then
    listening.last = listening.last + 1
    listening.engines[listening.last] = client.hub.engine
    listening.any = true
    client.watched.listed = true
  end
end

local function has_functions(client)
  return client.on_event or client.new_password
    or next(client.watched.leases) ~= nil
end

function events.watch(client)
  if has_functions(client) then
    list(client)
  end
end

-- Delivers for other clients that no event loop serves.
local function deliver_others(client)
  local due = {}
  for number, engine in next, listening.engines do
    local other = engine:client()
    if engine:closed() or not has_functions(other) then
      listening.engines[number], other.watched.listed = nil, false
    elseif other ~= client.hub and not other.waiting
        and may_be_due(other, engine:has_events()) then
      due[#due + 1] = other
    end
  end
  for other in next, listening.dropped do
    if other ~= client.hub and not other.waiting then
      due[#due + 1] = other
    end
  end
  listening.any = next(listening.engines) ~= nil
  for _, other in ipairs(due) do
    deliver(other)
  end
end

--- Runs what is due of all clients, at the end of a wait on Lua's own thread.
--- Callers skip it unless may_be_due or listening.any is true.
function events.deliver_all(client, fresh)
  if may_be_due(client, fresh) then
    deliver(client)
  end
  if listening.any then
    deliver_others(client)
  end
end

-- A finaliser calls this for a collected lease that is held. The next wait
-- reports it to on_event; without on_event it is shown at once. A state that is
-- being closed releases its leases: then no code of the program is running. In
-- nginx none may run at other times too.
core.lease_meta.dropped = function(client, key, running)
  if not running and not (ngx and ngx.worker and not ngx.worker.exiting()) then
    return
  elseif client.on_event then
    local dropped, hub = listening.dropped, client.hub
    dropped[hub] = dropped[hub] or {}
    table.insert(dropped[hub], key)
    hub.watched.late, listening.any = true, true
  else
    show(DROPPED:format(text.quote(key)))
  end
end

function events.expected(client)
  for _, lease in next_watched, client.watched do
    if core.held(lease) then
      return true
    end
  end
  return false
end

function events.check_callback(fn, extra, call)
  if type(fn) ~= "function" then
    misuse.raise("%s takes a function, not a %s", call, type(fn))
  end
  options.check_end(extra, call, "a function")
end

function events.subscribe(client, lease, kind, fn)
  local slot, name, watched = core.slot(lease), HANDLERS[kind], client.watched
  slot[name] = slot[name] or {}
  table.insert(slot[name], fn)
  if not slot.watched then
    watched.last, watched.count = watched.last + 1, watched.count + 1
    watched.leases[watched.last] = lease
    watched.kept[watched.last] = core.owned(lease) and lease or nil
    slot.watched = true
    if watched.count > watched.limit then
      sweep(watched)
    end
    list(client)
  end
  if kind == "lost" and core.lost(lease)
      or kind == "revoked" and core.revoked(lease) then
    watched.late = true
  elseif kind == "lost" then
    watched.look_at = math.min(watched.look_at,
      core.now() + core.remaining(lease))
  end
end

return events
