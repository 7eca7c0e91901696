-- Events of leases (losses, revocations), brought to Lua's own thread. A native
-- thread never calls Lua: the engine queues its events, and the next call that
-- waits takes them and runs the user's callbacks.
--
-- Callbacks live in the slot of their lease. client.watched finds the leases
-- that have some, by a number, and is swept when their number has doubled:
--   leases[number]   weak: a lease that is being collected is handed to nobody
--   kept[number]     those that end with their request (core.owned)
local core = require "dlock.core"
local misuse = require "dlock.misuse"
local protect = require "dlock.protect"
local text = require "dlock.text"

--- What on_event is called with.
---@class dlock.event
---@field kind string
---@field message string
---@field key? string of the lease or lock that it is about

local events = {}

-- The engines of this Lua state whose clients have functions of the user's to
-- be called, by a number. In a program that waits on its own thread every wait
-- calls what is due of all of them. Weak values, and userdata, because these
-- are taken out before they are finalised, but at the end of the Lua state: one
-- that is found here then is closed. any: there may be some.
-- dropped: clients whose leases were collected and that have not told it yet;
-- each is kept for that, although its store may be collected too.
local listening = { last = 0, any = false, dropped = {},
  engines = setmetatable({}, { __mode = "v" }) }

--- What a wait looks at before it asks for what is due: see deliver_all.
events.listening = listening

local DROPPED = "dropped: the lease on %s was collected while it was held, so"
  .. " it lasts for the rest of its ttl: keep it in a variable and release it"

local HANDLERS = { lost = "on_lost", revoked = "on_revoke" }
local FIRST_SWEEP = 64

--- An empty client.watched.
function events.new()
  return { last = 0, late = false, listed = false, count = 0,
    limit = FIRST_SWEEP, leases = setmetatable({}, { __mode = "v" }),
    kept = {} }
end

local ngx = rawget(_G, "ngx")

--- What nobody takes is shown once, where people look for errors.
function events.show(problem)
  if ngx and ngx.log and ngx.get_phase then
    ngx.log(ngx.ERR, "dlock: ", problem)
  else
    core.write(io.stderr.write, io.stderr, "dlock: ", problem, "\n")
  end
end

local show = events.show

--- Calls the user's on_event, if there is one.
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

--- A function of the user's failed: an event, or shown where nobody takes it.
function events.failed(client, message, key)
  if client.on_event then
    events.event(client, "callback", message, key)
  else
    show(message)
  end
end

--- The same, of one that raised an error: that never passes through us.
---@param name string of the callback
function events.raised(client, name, problem, key)
  events.failed(client, ("error in a callback of %s: %s"):format(name,
    text.of_error(problem)), key)
end

local function call_back(client, lease, name, fn, message)
  local ok, problem = protect.call(fn, lease, message)
  if not ok then
    events.raised(client, name, problem, lease.key)
  end
end

-- Adds to `due` the calls that an event of a lease means. They are the lease's
-- last of that kind.
local function add(due, client, lease, kind, message)
  local slot, name = core.slot(lease), HANDLERS[kind]
  local callbacks = name and slot[name]
  if not callbacks then
    return
  end
  slot[name] = nil
  for _, fn in ipairs(callbacks) do
    due[#due + 1] = function()
      call_back(client, lease, name, fn, message)
    end
  end
end

-- The next lease with callbacks; those that were given up, or ended with their
-- request, are taken out.
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

-- There may be several handles of one hold.
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
      client.watched.late = true -- of many, the engine may have dropped some
    end
  end
end

-- Leases that were collected while they were held.
local function add_dropped(due, client)
  for _, key in ipairs(listening.dropped[client.hub] or {}) do
    due[#due + 1] = function()
      events.event(client, "dropped", DROPPED:format(text.quote(key)), key)
    end
  end
  listening.dropped[client.hub] = nil
end

local function add_lost(due, client, lease)
  add(due, client, lease, "lost", ("lost: %s is not held any more")
    :format(text.quote(lease.key)))
end

local function add_revoked(due, client, lease)
  add(due, client, lease, "revoked", "somebody asked for the lock")
end

-- Losses and revocations that came before their callback was noted, or whose
-- events the engine dropped because there were too many; and collected leases.
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

--- Whether callbacks of the client may be due: the engine's events are not all
--- that they come from.
---@param fresh boolean its engine has events
function events.may_be_due(client, fresh)
  return fresh or client.watched.late
end

local may_be_due = events.may_be_due

--- The calls of the user's functions that are due, in their order: to be made
--- by the caller.
function events.due(client)
  local due, items = {}, client.engine:events()
  if listening.dropped[client.hub] then -- what came before the loss of these
    add_dropped(due, client)
  end
  if items then
    add_items(due, client, items)
  end
  if client.watched.late then
    add_late(due, client)
  end
  if client.new_password and client.engine:asks() then
    due[#due + 1] = client.new_password
  end
  return due
end

--- Those of a lease whose release is over; `lost`: it was not ours any more.
--- What the release itself was the first to see is among them.
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

--- Whether any lease has callbacks, so that a release may mean calls. Not if
--- client.watched.count is 0.
function events.has_callbacks(client)
  return next(client.watched.leases) ~= nil
end

--- Makes these calls one after the other, as a program does that waits on its
--- own thread. Never while the engine's loop runs.
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

-- Whether a wait may find something to call: its leases may have callbacks, and
-- on_event and a function for the password are there as long as it is.
local function has_functions(client)
  return client.on_event or client.new_password
    or next(client.watched.leases) ~= nil
end

--- A new client, whose engine knows it: from now on all waits call what is due.
function events.watch(client)
  if has_functions(client) then
    list(client)
  end
end

-- The callbacks of the other clients, but of those that an event loop serves.
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

--- What a wait on Lua's own thread ends with: the callbacks that are due, of
--- this client and of the others. There are none unless some may be due, or
--- listening.any.
---@param fresh boolean its engine has events
function events.deliver_all(client, fresh)
  if may_be_due(client, fresh) then
    deliver(client)
  end
  if listening.any then
    deliver_others(client)
  end
end

-- The collector found a lease that is held: called within its finaliser. With
-- on_event the next wait tells it; without, a line does at once. Not when the
-- state is being closed, which releases the lease: then no code of the program
-- is running. (nginx collects while none is, too.)
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

--- Whether a lease has callbacks that may still have to be run.
function events.expected(client)
  for _, lease in next_watched, client.watched do
    if core.held(lease) then
      return true
    end
  end
  return false
end

--- Raises if fn is no function.
function events.check_callback(fn, call)
  if type(fn) ~= "function" then
    misuse.raise("%s takes a function, not a %s", call, type(fn))
  end
end

--- Notes fn for events of this kind and lease.
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
  end
end

return events
