-- What happened to leases while nobody looked, brought to Lua's own thread: a
-- native thread never calls Lua, it leaves news for the next call that waits.
--
-- Callbacks live in the slot of their lease. client.watched finds the leases
-- that have some, by a number; its values are weak, so that a lease that is
-- being collected is never handed to anybody.
local core = require "dlock.core"
local protect = require "dlock.protect"
local text = require "dlock.text"

local news = {}

-- The engines of this Lua state whose clients have callbacks, by a number: a
-- program that waits on its own thread hears of all of them, whichever it
-- calls. Weak values, and userdata, because these are taken out before they are
-- finalised: what is found here is alive.
local listening = { last = 0, engines = setmetatable({}, { __mode = "v" }) }

local HANDLERS = { lost = "on_lost", revoked = "on_revoke" }

--- An empty client.watched.
function news.new()
  return { last = 0, late = false, listed = false,
    leases = setmetatable({}, { __mode = "v" }) }
end

--- Tells the user's on_event, if there is one. Its errors end here: there is
--- nobody left to tell.
function news.event(client, kind, message, key)
  if client.on_event then
    protect.call(client.on_event, { kind = kind, message = message, key = key })
  end
end

local function run(client, lease, kind, message)
  local slot, name = core.slot(lease), HANDLERS[kind]
  local callbacks = name and slot[name]
  if not callbacks or core.given_up(lease) then
    return
  end
  slot[name] = nil
  for _, fn in ipairs(callbacks) do
    local ok, problem = protect.call(fn, lease, message)
    if not ok then
      news.event(client, "callback", ("error in a callback of %s: %s")
        :format(name, tostring(problem)), lease.key)
    end
  end
end

-- There may be several handles of one hold.
local function watched_by_id(client)
  local by_id = {}
  for number, lease in pairs(client.watched.leases) do
    if core.given_up(lease) then
      client.watched.leases[number] = nil
    else
      local id = core.id(lease)
      by_id[id] = by_id[id] or {}
      table.insert(by_id[id], lease)
    end
  end
  return by_id
end

local function deliver_items(client, items)
  local by_id = watched_by_id(client)
  for _, item in ipairs(items) do
    local leases = item.lease and by_id[item.lease] or {}
    news.event(client, item.kind, item.message,
      item.key or leases[1] and leases[1].key)
    for _, lease in ipairs(leases) do
      run(client, lease, item.kind, item.message)
    end
    if HANDLERS[item.kind] then
      client.watched.late = true -- of many, not all may be in the news
    end
  end
end

-- Losses and requests that are no news: callbacks that were noted later, and
-- what the engine dropped because there was too much of it.
local function deliver_late(client)
  client.watched.late = false
  for _, leases in pairs(watched_by_id(client)) do
    for _, lease in ipairs(leases) do
      if not core.held(lease) then
        run(client, lease, "lost", ("lost: %s is not held any more")
          :format(text.quote(lease.key)))
      elseif core.revoked(lease) then
        run(client, lease, "revoked", "somebody asked for the lock")
      end
    end
  end
end

--- Runs the callbacks that are due. Called between and after waits, never
--- while one is being driven.
function news.deliver(client)
  local items = client.engine:news()
  if items then
    deliver_items(client, items)
  end
  if client.watched.late then
    deliver_late(client)
  end
end

-- Those that an event loop told before are told by it.
local function deliver_others(client)
  local due = {}
  for number, engine in next, listening.engines do
    local other = engine:client()
    local watched = other.watched
    if engine:closed() or next(watched.leases) == nil then
      listening.engines[number], watched.listed = nil, false
    elseif other ~= client and not other.waiting
        and (watched.late or engine:has_news()) then
      due[#due + 1] = other
    end
  end
  for _, other in ipairs(due) do
    news.deliver(other)
  end
end

--- What a wait on Lua's own thread ends with: the callbacks that are due, of
--- this client and of the others.
---@param client table
---@param fresh boolean its engine has news
function news.deliver_all(client, fresh)
  if fresh or client.watched.late then
    news.deliver(client)
  end
  if next(listening.engines) ~= nil then
    deliver_others(client)
  end
end

--- Whether a lease has callbacks that may still have to be run.
---@return boolean
function news.expected(client)
  local leases = client.watched.leases
  for number, lease in pairs(leases) do
    if core.given_up(lease) then
      leases[number] = nil
    elseif core.held(lease) then
      return true
    end
  end
  return false
end

--- Raises, at the caller of the method that calls this, if fn is no function.
function news.check_callback(fn, call)
  if type(fn) ~= "function" then
    error(("%s takes a function, not a %s"):format(call, type(fn)), 3)
  end
end

--- Notes fn for the given kind of news of this lease.
---@param kind "lost"|"revoked"
function news.subscribe(client, lease, kind, fn)
  local slot, name, watched = core.slot(lease), HANDLERS[kind], client.watched
  slot[name] = slot[name] or {}
  table.insert(slot[name], fn)
  if not slot.watched then
    watched.last = watched.last + 1
    watched.leases[watched.last] = lease
    slot.watched = true
    if not watched.listed then
      listening.last = listening.last + 1
      listening.engines[listening.last] = client.engine
      watched.listed = true
    end
  end
  if kind == "lost" and not core.held(lease)
      or kind == "revoked" and core.revoked(lease) then
    watched.late = true
  end
end

return news
