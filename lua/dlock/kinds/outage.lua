-- What this process knows of a store that does not answer, for dlock.fallback:
-- one table for each client, so that all its fallbacks agree, and objects that
-- are made for one request remember what the last one saw.
--
--   failures  in a row; nil: forgotten. Each { at, gap }: when it was seen, and
--             how long nobody had asked before it, the longest gap first. What
--             came behind with no longer gap is left out
--   looked    until when it was last asked, in vain or not
--   used      when somebody last wanted a lock of it
--   entered   a weaker lock was given because of it
--   hold_off  the longest of those who wanted one since then
--   owed      the event that it is over
--   good      since when each ping was answered, while entered
--   refusal   the answer of the last ping, if it was one that refuses us
--   leases    the degraded leases that it led to: the holds of those that end
--             with their request (core.owned), as long as they last, whether or
--             not a variable refers to them; the others, weak
--
-- A weaker lock may be given `grace` seconds after the first failure of an
-- outage: whoever held a lock of the store has passed its deadline then, if the
-- store was down for everybody all that time. We only know that it did not
-- answer us each time we asked, so failures make one outage only if not more
-- than `grace` seconds lie between them; one user's outage began later than
-- that of another whose grace is longer. Once a weaker lock was given, the
-- store counts as out until it has answered pings for `hold_off` seconds and no
-- degraded lease is held here (all must agree when that is, so the longest
-- hold_off counts; but each one's own grace has to be over before it is given a
-- weaker lock); or until nobody has wanted a lock of it for longer than both
-- times, when what is known is too old to be used.
--
-- What an answer means, that of an attempt or that of a ping:
--
--   a lease, a time,   the store works: what failed before was no outage of
--   busy, timeout      everybody's
--   unavailable        a failure: the only one that others may stand in for
--   denied, invalid,   the same as busy, for everybody else: others may be
--   lost               using the store, so nothing is given in its place. While
--                      it is out each call is told the same until a ping is
--                      answered in another way. For hold_off it is an answer
--   cancelled, closed, the call was ended, or its object or place is of no
--   forked,            use: that says nothing of the store, so nothing is noted
--   unsupported
--
-- All but `unavailable` are the answers of the whole.
--
-- Several wait at the same time, and an answer may be long on its way. So both
-- kinds of lock are looked at once more when they were granted. A weaker lock
-- counts only if the outage still stands: somebody may have had an answer since
-- (who had, holds the lock of the store perhaps). If it was waited for, nobody
-- may have asked, so who has it asks for a sign of life first (look). A lock of
-- the store counts only if nobody entered meanwhile. Whoever comes second gives
-- its lock back; between the look and the note of it (stands and enter,
-- answered) nobody else runs.
local core = require "dlock.core"
local events = require "dlock.events"
local host = require "dlock.host"
local lockable = require "dlock.lockable"

local outage = {}

local PING_EVERY = 1 -- seconds; also how long one ping may take, and how long
                     -- we go by an answer, or by there being none
local SHORTEST = 0.05 -- seconds of a ping
local FIRST_SWEEP = 64

local REFUSES = { denied = true, invalid = true, lost = true }

local known = setmetatable({}, { __mode = "k" })

local function any_held(leases)
  for lease in next, leases do
    if lease:held() then
      return true
    end
  end
  return false
end

local function holds(out)
  return any_held(out.leases.weak) or any_held(out.leases.kept)
end

local function new_leases()
  return { weak = setmetatable({}, { __mode = "k" }), kept = {}, count = 0,
    limit = FIRST_SWEEP }
end

-- Those that are over go when their number has doubled.
local function keep(leases, inner)
  if leases.count >= leases.limit then
    leases.count = 0
    for lease in next, leases.kept do
      if lease:held() then
        leases.count = leases.count + 1
      else
        leases.kept[lease] = nil
      end
    end
    leases.limit = math.max(FIRST_SWEEP, 2 * leases.count)
  end
  if not leases.kept[inner] then
    leases.kept[inner] = true
    leases.count = leases.count + 1
  end
end

local function end_it(client, out)
  known[client] = nil
  if out.owed then
    host.run_callbacks(client, { function()
      events.event(client, "restored", ("%s answers again, and its locks are"
        .. " used again"):format(client.shown))
    end })
  end
end

-- Too old to be used; but whoever was told of it waits to learn of its end.
local function forget(out)
  out.failures, out.entered, out.good, out.pinged = nil, nil, nil, nil
  out.refusal, out.hold_off = nil, nil
end

local function again(client)
  return ("unavailable: %s answers again, for less than hold_off seconds")
    :format(client.shown)
end

--- Whether an attempt's code, nil for a lease, is an answer of the store.
function outage.is_answer(code)
  return code == nil or code == "busy" or code == "timeout" or REFUSES[code]
    or false
end

--- It answered: whatever failed before was no outage of everybody's. Not if it
--- is out; then why.
---@param client table
---@return boolean
---@return string? message
function outage.answered(client)
  local out = known[client]
  if out and out.entered then
    return false, again(client)
  elseif out then
    end_it(client, out)
  end
  return true
end

-- A failure behind a time in which nobody asked.
local function add_failure(failures, gap, now)
  local count = #failures
  while failures[count].gap <= gap do
    failures[count] = nil
    count = count - 1
  end
  failures[count + 1] = { at = now, gap = gap }
end

--- It did not answer an attempt that began at `begun` and was to be over by
--- `over`. If it was so much later that we stood still meanwhile, nobody asked
--- between that and now.
function outage.failed(client, message, begun, over)
  local now, out = core.now(), known[client]
  if not out then
    out = { leases = new_leases() }
    known[client] = out
  end
  if not out.failures then
    out.failures = { { at = now, gap = math.huge } }
  elseif not out.entered and begun > out.looked then
    add_failure(out.failures, begun - out.looked, now)
  end
  out.looked, out.message = now > over + PING_EVERY and over or now, message
end

-- When the first failure of an outage was seen, by who has this grace; nil:
-- there was none.
local function began(out, grace)
  local failures = out and out.failures
  for i = failures and #failures or 0, 2, -1 do
    if failures[i].gap > grace then
      return failures[i].at
    end
  end
  return failures and failures[1].at
end

--- When a weaker lock may be given, or nil: nothing is known against it.
function outage.ends_grace(client, grace)
  local since = began(known[client], grace)
  return since and since + grace
end

-- Asks for a sign of life where cancel() ends it.
local function ask(member, limit, cancel)
  local client = member.client
  local adapter, message, code = host.ready(client)
  if not adapter then
    return nil, message, code
  end
  local ticket
  ticket, message, code = client.engine:ping(limit)
  if not ticket then
    return nil, message, code
  end
  return lockable.wait_noted(client, ticket, adapter, member.waits, cancel)
end

-- Asks it for a sign of life, but not more often than once in PING_EVERY; a
-- store that is closed says so without being asked. Returns the message and the
-- code of an answer that says nothing of it.
local function ping(member, out, limit, cancel)
  local client, now, last = member.client, core.now(), out.pinged
  if last and now - last < PING_EVERY and not client.engine:closed() then
    return nil
  end
  out.pinged = now
  local took, message, code = ask(member, limit, cancel)
  if took or REFUSES[code] then
    out.looked = core.now()
    out.good = out.good or out.looked
    out.refusal = not took and { message = message, code = code } or nil
  elseif code == "unavailable" then
    out.looked, out.message = core.now(), message
    out.good, out.refusal = nil, nil
  else
    out.pinged = last
    return message, code
  end
end

--- How long a ping may take where so many seconds are left.
---@param left number
---@return number
function outage.limit(left)
  return math.max(math.min(left, PING_EVERY), SHORTEST)
end

--- Whether its store answers at all, in any way, within that limit.
---@param member table a lock's state: client, and the set waits
---@param limit number
---@param cancel table|nil the state of a canceller
---@return boolean
function outage.is_there(member, limit, cancel)
  local took, _, code = ask(member, limit, cancel)
  return took ~= nil or code ~= "unavailable"
end

-- Whether it has answered for so long that it can be used again.
local function is_over(out)
  return not holds(out) and out.good and core.now() - out.good >= out.hold_off
end

local function used(out, hold_off)
  out.used, out.hold_off = core.now(), math.max(out.hold_off or 0, hold_off)
end

--- Whether it is out, so that it is not asked for its own lock; then why not,
--- and the code: `unavailable` if weaker locks are given.
---@param member table
---@param grace number
---@param hold_off number
---@param limit number
---@param cancel table|nil
---@return boolean
---@return string? message
---@return string? code
function outage.goes_on(member, grace, hold_off, limit, cancel)
  local client = member.client
  local out = known[client]
  if not out or not out.entered then
    return false
  end
  local unused, old = core.now() - out.used, math.max(grace, out.hold_off)
  if not holds(out) and unused > math.max(old, hold_off, PING_EVERY) then
    forget(out)
    return false
  end
  used(out, hold_off)
  local message, code = ping(member, out, limit, cancel)
  if code then
    return true, message, code
  elseif not out.entered then
    return false -- another one saw its end meanwhile
  elseif is_over(out) then
    out.entered = nil
    end_it(client, out)
    return false
  elseif out.refusal then
    return true, out.refusal.message, out.refusal.code
  end
  return true, out.good and again(client) or out.message, "unavailable"
end

--- Whether it is out: weaker locks may be held here because of it.
function outage.is_out(client)
  local out = known[client]
  return out ~= nil and out.entered == true
end

--- A weaker lock was granted: asks once more, unless what is known is new.
---@param member table
---@param grace number
---@param hold_off number
---@param limit number
---@param cancel table|nil
function outage.look(member, grace, hold_off, limit, cancel)
  local client, begun = member.client, core.now()
  local out = known[client]
  if not out or begun - out.looked <= PING_EVERY then
    return
  elseif out.entered then
    outage.goes_on(member, grace, hold_off, limit, cancel)
    return
  end
  local took, message, code = ask(member, limit, cancel)
  if took or outage.is_answer(code) then
    outage.answered(client)
  elseif code == "unavailable" then
    outage.failed(client, message, begun, begun + limit)
  end
end

--- Whether a weaker lock may be given because of it, now that it was granted;
--- else why not.
---@param client table
---@param grace number
---@return boolean
---@return string? message
---@return string? code
function outage.stands(client, grace)
  local out = known[client]
  if out and out.entered and out.refusal then
    return false, out.refusal.message, out.refusal.code
  end
  local since = began(out, grace)
  if since and core.now() >= since + grace then
    return true
  elseif since then
    return false, out.message, "unavailable"
  end
  return false, ("unavailable: %s answers again"):format(client.shown),
    "unavailable"
end

--- It is given: the store is out until its end is seen.
---@param client table
---@param lease table as the program has it
---@param inner dlock.lease the hold in it
---@param hold_off number
function outage.enter(client, lease, inner, hold_off)
  local out = known[client]
  out.entered, out.owed = true, true
  used(out, hold_off)
  if core.owned(inner) then
    keep(out.leases, inner)
  else
    out.leases.weak[lease] = true
  end
end

--- Says that a weaker lock was given.
function outage.tell(client, message, key)
  client.degraded = (client.degraded or 0) + 1
  host.run_callbacks(client, { function()
    events.event(client, "degraded", message, key)
  end })
end

return outage
