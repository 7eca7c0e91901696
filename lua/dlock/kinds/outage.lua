-- The state of a store whose lock has others in its place. All fallbacks on a
-- store share it, so one made for a request knows of earlier failures.
--
-- A *first* lock has others behind it in the list; the *store* is its own. A
-- *weaker* lock is given in its place, by a *degraded* lease. A *run* is a row
-- of failures without an answer. A *plan* is a call's: grace (nil: the lock's
-- ttl), hold_off, cancel, wait, deadline.
--
--   answer               | ANSWERS       | FAILING       | OUT
--   lease, pong,         |               | -> ANSWERS    | hold_off runs (I5)
--     busy, timeout      |               |               |
--   denied, invalid,     |               | -> ANSWERS    | as above, and each
--     lost               |               |               | call is told it
--   unavailable          | -> FAILING:   | the run       | hold_off is void
--                        | a run begins  | goes on (I2)  |
--   a weaker lock given  |               | -> OUT        |
--   cancelled, closed,   | the call ends, and nothing is noted
--     forked, unsupported|
--
--   I1  A weaker lock is given only after a run of `grace`: then each holder of
--       the first lock has passed its deadline.
--   I2  In a gap longer than `grace` the store may have worked, so the run
--       proves nothing. A caller with a shorter grace begins it anew.
--   I3  Only `unavailable` gives a weaker lock. Every other answer is the
--       call's.
--   I4  While OUT, no first lock is given. Calls ping the store at most once in
--       PING_EVERY and go by its last answer. A caller with a grace no longer
--       than one waited for passes at once; others ask for the lock, to see
--       their own run, and give it back. A failure after no call for longer
--       than grace counts as the first.
--   I5  OUT becomes ANSWERS when the store has answered for its callers'
--       longest hold_off, and this process holds no degraded lease.
--   I6  OUT becomes FAILING, without a run, after no call for longer than
--       grace, hold_off and PING_EVERY, unless a degraded lease is held.
--   I7  A granted weaker lock is given only if the store was asked within
--       PING_EVERY (look), and I1 or I4 allows it (ready). No other coroutine
--       runs between ready and enter.
local core = require "dlock.core"
local events = require "dlock.events"
local host = require "dlock.host"
local lockable = require "dlock.lockable"

local outage = {}

local PING_EVERY = 1 -- seconds; a ping takes no longer
local SHORTEST = 0.05 -- seconds for a ping when none are left

local FAILING, OUT = "FAILING", "OUT"

local MEANS = { busy = "answer", timeout = "answer", denied = "refusal",
  invalid = "refusal", lost = "refusal", unavailable = "failure" }

-- By client; a store without an entry ANSWERS.
--   since, asked, gap  of the run: first and last failure, longest gap (I2)
--   message, code  the last answer
--   grace, hold_off  in OUT: the longest waited for, and wanted
--   used, pinged  in OUT: the last call, the begin of the last ping
--   good  in OUT: since when the store answers
--   leases, kept  degraded leases, weak keys; those that end with a request
--   told  `degraded` was told, so `restored` is owed
local known = setmetatable({}, { __mode = "k" })

local function grace_of(member, plan)
  return plan.grace or member.base.ttl
end

local function answers_again(client)
  return ("unavailable: %s answers again; its locks are not used yet")
    :format(client.shown)
end

-- Whether a degraded lease is held; drops ended ones.
local function holds(it)
  local any = false
  for lease in next, it.leases do
    if lease:held() then
      any = true
    else
      it.leases[lease], it.kept[lease] = nil, nil
    end
  end
  return any
end

-- -> ANSWERS
local function restore(client, it)
  it.state, known[client] = nil, nil
  if it.told then
    host.run_callbacks(client, { function()
      events.event(client, "restored", ("%s answers again, and its locks are"
        .. " used again"):format(client.shown))
    end })
  end
end

-- -> FAILING, or the run goes on (I2).
local function fail(client, grace, begun, ended)
  local it = known[client]
  if not it then
    it = { state = FAILING, grace = 0, hold_off = 0, kept = {},
      leases = setmetatable({}, { __mode = "k" }) }
    known[client] = it
  end
  it.good = nil
  if it.state == FAILING or grace > it.grace then
    local gap = it.since and math.max(it.gap, begun - it.asked)
    if not gap or gap > grace then
      it.since, it.asked, it.gap = ended, ended, 0
    else
      it.asked, it.gap = math.max(it.asked, ended), gap
    end
  end
  return it
end

--- Notes an answer to a question of that time; no code: success.
---@param member table a lock's state: client, base, waits
function outage.note(member, plan, begun, ended, message, code)
  local client = member.client
  local it, means = known[client], code == nil and "answer" or MEANS[code]
  if means == "failure" then
    it = fail(client, grace_of(member, plan), begun, ended)
    it.message, it.code = message, code
  elseif means and it and it.state == FAILING then
    restore(client, it)
  elseif means and it then
    it.since, it.good = nil, it.good or core.now()
    it.message, it.code = message, code
    if means == "answer" then
      it.message, it.code = answers_again(client), "unavailable"
    end
  end
end

-- Asks for half of the time left. Returns message and code of an answer that
-- MEANS nothing.
local function ping(member, plan)
  local begun = core.now()
  local left = plan.wait and (plan.deadline - begun) / 2 or PING_EVERY
  local limit = math.max(math.min(left, PING_EVERY), SHORTEST)
  local _, message, code = lockable.ask({ client = member.client,
    waits = member.waits, cancel = plan.cancel }, "ping", limit)
  outage.note(member, plan, begun, math.min(core.now(), begun + limit),
    message, code)
  if code and not MEANS[code] then return message, code end
end

-- Forgets (I6), or pings unless the last answer is new. Returns as ping.
local function ask_while_out(member, plan, it, old)
  local now = core.now()
  local gap, held = now - it.used, holds(it)
  if old and gap > it.hold_off and not held then
    it.state, it.grace, it.hold_off = FAILING, 0, 0
    it.since, it.good, it.pinged = nil, nil, nil
  elseif old or not it.pinged or now - it.pinged >= PING_EVERY
      or member.client.engine:closed() then
    it.pinged = now
    local message, code = ping(member, plan)
    if code then it.pinged = nil end
    return message, code
  end
end

--- Message and code of an OUT store's last sign of life; nil: its lock is asked
--- for (I4).
function outage.sign(member, plan)
  local client, grace = member.client, grace_of(member, plan)
  local it = known[client]
  if not it or it.state ~= OUT then return nil end
  it.hold_off = math.max(it.hold_off, plan.hold_off)
  local old = core.now() - it.used > math.max(grace, PING_EVERY)
  local message, code = ask_while_out(member, plan, it, old)
  if code then return message, code end
  if it.state ~= OUT then return nil end
  if it.good and core.now() - it.good >= it.hold_off and not holds(it) then
    return restore(client, it) -- I5
  end
  it.used = core.now()
  if not it.good and old then it.grace = 0 end
  if it.good or grace <= it.grace then return it.message, it.code end
end

--- Asks anew (I7). Returns as ping.
function outage.look(member, plan)
  local it, message, code = known[member.client], nil, nil
  if it and it.state == OUT then
    message, code = outage.sign(member, plan)
  elseif it and it.since and core.now() - it.asked > PING_EVERY then
    message, code = ping(member, plan)
  end
  if code and not MEANS[code] then return message, code end
end

--- 0: a weaker lock may be given. Else until when failures have to last, or nil
--- when they do not help; then message and code.
function outage.ready(member, plan)
  local client, grace = member.client, grace_of(member, plan)
  local it = known[client]
  if not it or it.state == FAILING and not it.since then
    return nil, answers_again(client), "unavailable"
  elseif it.code ~= "unavailable" then -- I3
    return nil, it.message, it.code
  elseif it.state == OUT and grace <= it.grace then -- I4
    return 0
  end
  local ready = (it.since or core.now()) + grace
  if it.since and it.gap <= grace and it.asked >= ready then -- I1, I2
    return 0
  end
  return ready, it.message, it.code
end

--- -> OUT: a weaker lock is given, by the lease `inner`.
function outage.enter(member, plan, inner)
  local client = member.client
  local it = known[client]
  it.state, it.told, it.used = OUT, true, core.now()
  it.grace = math.max(it.grace, grace_of(member, plan))
  it.hold_off = math.max(it.hold_off, plan.hold_off)
  it.leases[inner], it.kept[inner] = true, core.owned(inner) or nil
  client.degraded = (client.degraded or 0) + 1
end

function outage.is_out(client)
  return known[client] ~= nil and known[client].state == OUT
end

return outage
