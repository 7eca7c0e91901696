-- What this process knows of a store that does not answer, for dlock.fallback:
-- one table for each client, so that all its fallbacks agree, and objects that
-- are made for one request remember what the last one saw.
--
--   since     when the first of its failures in a row was seen
--   looked    when it was last asked, in vain or not
--   entered   a weaker lock was given because of it
--   good      since when each ping was answered, while entered
--   leases    the degraded leases that it led to, weak
--
-- A weaker lock may be given `grace` seconds after `since`: whoever held a lock
-- of the store has passed its deadline then, if the store was down for
-- everybody all that time. We only know that it did not answer us each time we
-- asked, so failures make one outage only if not more than `grace` seconds lie
-- between them. Once a weaker lock was given, the store counts as out until it
-- has answered pings for `hold_off` seconds and no degraded lease is held here;
-- or until nobody has asked for longer than both times, when what is known is
-- too old to be used.
local core = require "dlock.core"
local events = require "dlock.events"
local host = require "dlock.host"

local outage = {}

local PING_EVERY = 1 -- seconds; also how long one ping may take

local known = setmetatable({}, { __mode = "k" })

local function holds(out)
  for lease in next, out.leases do
    if lease:held() then
      return true
    end
  end
  return false
end

local function end_it(client, out)
  known[client] = nil
  if out.entered then
    host.run_callbacks(client, { function()
      events.event(client, "restored", ("%s answers again, and its locks are"
        .. " used again"):format(client.shown))
    end })
  end
end

--- It answered: whatever failed before was no outage of everybody's.
function outage.answered(client)
  local out = known[client]
  if out and not out.entered then
    known[client] = nil
  end
end

--- It did not answer an attempt that began at `begun`.
function outage.failed(client, message, begun, grace)
  local now, out = core.now(), known[client]
  if not out or not out.entered and begun - out.looked > grace then
    out = { since = now, leases = setmetatable({}, { __mode = "k" }) }
    known[client] = out
  end
  out.looked, out.message = now, message
end

--- When a weaker lock may be given, or nil: nothing is known against it.
function outage.ends_grace(client, grace)
  local out = known[client]
  return out and out.since + grace
end

-- Asks it for a sign of life, but not more often than once in PING_EVERY.
local function ping(client, out)
  local now = core.now()
  if out.pinged and now - out.pinged < PING_EVERY then
    return
  end
  out.pinged = now
  local took, message, code = host.ask(client, client.engine.ping,
    client.engine, PING_EVERY)
  out.looked = core.now()
  if took then
    out.good = out.good or out.looked
  else
    out.good = nil
    out.message = code == "unavailable" and message or out.message
  end
end

--- Whether weaker locks are given without asking it for its own; then why.
---@param client table
---@param grace number
---@param hold_off number
---@return boolean
---@return string? message
function outage.goes_on(client, grace, hold_off)
  local out = known[client]
  if not out or not out.entered then
    return false
  end
  local held = holds(out)
  if not held and core.now() - out.looked > math.max(grace, hold_off) then
    known[client] = nil
    return false
  end
  ping(client, out)
  if not held and out.good and core.now() - out.good >= hold_off then
    end_it(client, out)
    return false
  end
  return true, out.good and ("unavailable: %s answers again, for less than"
    .. " hold_off seconds"):format(client.shown) or out.message
end

--- A weaker lock was given because of it.
function outage.entered(client, lease, message)
  local out = known[client]
  if out then
    out.entered = true
    out.leases[lease] = true
  end
  client.degraded = (client.degraded or 0) + 1
  host.run_callbacks(client, { function()
    events.event(client, "degraded", message, lease.key)
  end })
end

return outage
