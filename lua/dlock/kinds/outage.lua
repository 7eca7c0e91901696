-- What this process knows of a store whose lock has others in its place
-- (dlock.fallback). All fallbacks on a store share this knowledge. So they
-- agree, and a fallback made for one request remembers the last one's failures.
--
-- Words. A *first* lock has others behind it in the list; the *store* is the
-- first lock's. A *weaker* lock is given in its place, by a *degraded* lease.
-- An *attempt* asks for the first lock, a *ping* for a sign of life. A
-- *failure* is the answer `unavailable` to one of these. A *run* is a row of
-- failures with no answer in it. A *plan* is what a call asks for: grace (nil:
-- the lock's ttl), hold_off, cancel, wait and deadline.
--
-- States of a store, each transition with its function:
--
--            failure                weaker lock given
--   ANSWERS ---------> FAILING ----------------------------> OUT
--    ^  ^      note     |  ^              enter              | |
--    |  |               |  |                                 | |
--    |  +---------------+  +---------------------------------+ |
--    |    answer: note        nobody asked, I6: is_forgotten   |
--    +---------------------------------------------------------+
--              has answered for hold_off, I5: is_over
--
-- What an answer means, to an attempt or a ping (MEANS):
--
--   lease, pong,        answer: the store works. FAILING ends; in OUT the time
--   busy, timeout       of hold_off begins
--   denied, invalid,    refusal: the store works for others. As an answer, and
--   lost                in OUT it is what each call is told until the next ping
--   unavailable         failure: the run begins or goes on; in OUT the time of
--                       hold_off is void
--   cancelled, closed,  nothing: the call ended, or its place or object is of
--   forked, unsupported no use. The call is told, and nothing is noted
--
-- Rules:
--   I1  A weaker lock is given only if the run has lasted for `grace`, from its
--       first failure to its last one. If the store was down for everybody,
--       each holder of the first lock has passed its deadline by then.
--   I2  A run proves nothing if nobody asked in it for longer than `grace`: the
--       store may have worked meanwhile. One run serves all callers. A caller
--       whose grace is shorter than the longest gap begins the run anew.
--   I3  Only `unavailable` lets a weaker lock be given. Every other answer is
--       the answer of the whole call.
--   I4  While OUT, no first lock is given. Calls ping the store, at most once
--       in PING_EVERY, and go by its last answer in between. A caller passes
--       at once if its grace is no longer than one that was waited for. Others
--       ask for the lock to see their own run; a lease of it is given back. A
--       failure after nobody called for longer than grace counts as the first.
--   I5  OUT is over when the store has answered for the longest hold_off of its
--       callers, and no degraded lease is held in this process.
--   I6  OUT is forgotten when nobody called for longer than grace, hold_off and
--       PING_EVERY, and no degraded lease is held.
--   I7  A granted weaker lock is given only if the store was asked within
--       PING_EVERY (look), and I1 or I4 still allows it (passes). No other
--       coroutine runs between passes and enter.
local core = require "dlock.core"
local events = require "dlock.events"
local host = require "dlock.host"
local lockable = require "dlock.lockable"

local outage = {}

local PING_EVERY = 1 -- seconds; also the longest time for one ping
local SHORTEST = 0.05 -- seconds; the time for a ping when none is left

local ANSWERS, FAILING, OUT = "ANSWERS", "FAILING", "OUT"

local MEANS = { busy = "answer", timeout = "answer", denied = "refusal",
  invalid = "refusal", lost = "refusal", unavailable = "failure" }

-- By client; a store without an entry ANSWERS.
--   since, asked, gap  of the run: first failure, last one, longest gap (I2)
--   message, code      the last answer
--   grace, hold_off    in OUT: the longest one that was waited for, or wanted
--   used, pinged       in OUT: when the last call came, the last ping began
--   good               in OUT: since when it answers
--   kept, weak         degraded leases; kept: those that end with their request
--   told               `degraded` was told, so `restored` is owed
local known = setmetatable({}, { __mode = "k" })

local function new_entry()
  return { state = FAILING, grace = 0, hold_off = 0, kept = {},
    weak = setmetatable({}, { __mode = "k" }) }
end

local function grace_of(member, plan)
  return plan.grace or member.base.ttl
end

local function answers_again(client)
  return ("unavailable: %s answers again; its locks are not used yet")
    :format(client.shown)
end

-- Whether a degraded lease is held; drops those that have ended.
local function holds(it)
  local any = false
  for _, leases in ipairs { it.weak, it.kept } do
    for lease in next, leases do
      if lease:held() then any = true else leases[lease] = nil end
    end
  end
  return any
end

-- FAILING, OUT -> ANSWERS
local function restore(client, it)
  it.state, known[client] = ANSWERS, nil
  if it.told then
    host.run_callbacks(client, { function()
      events.event(client, "restored", ("%s answers again, and its locks are"
        .. " used again"):format(client.shown))
    end })
  end
end

-- A failure of what was asked from begun to ended (I2).
local function count(it, grace, begun, ended)
  local gap = it.since and math.max(it.gap, begun - it.asked)
  if not gap or gap > grace then
    it.since, it.asked, it.gap = ended, ended, 0
  else
    it.asked, it.gap = math.max(it.asked, ended), gap
  end
end

-- It works, but is not used yet: hold_off runs.
local function answer_while_out(client, it, message, code)
  it.since, it.good = nil, it.good or core.now()
  if code ~= nil and MEANS[code] == "refusal" then
    it.message, it.code = message, code
  else
    it.message, it.code = answers_again(client), "unavailable"
  end
end

--- Notes an answer to what was asked from begun to ended; no code: success.
---@param member table a lock's state: client, base, and the set waits
---@return string? means nil if it says nothing of the store
function outage.note(member, plan, begun, ended, message, code)
  local client = member.client
  local it, means = known[client], code == nil and "answer" or MEANS[code]
  if means == "failure" then
    it = it or new_entry()
    known[client] = it
    it.good, it.message, it.code = nil, message, code
    local grace = grace_of(member, plan)
    if it.state == FAILING or grace > it.grace then
      count(it, grace, begun, ended)
    end
  elseif means and it and it.state == FAILING then
    restore(client, it)
  elseif means and it then
    answer_while_out(client, it, message, code)
  end
  return means
end

-- Asks for a sign of life, for half of the time that is left. Returns message
-- and code of an answer that says nothing.
local function ping(member, plan)
  local client, begun = member.client, core.now()
  local left = plan.wait and (plan.deadline - begun) / 2 or PING_EVERY
  local limit = math.max(math.min(left, PING_EVERY), SHORTEST)
  local adapter, ticket, took, message, code
  adapter, message, code = host.ready(client)
  if adapter then
    ticket, message, code = client.engine:ping(limit)
  end
  if ticket then
    took, message, code = lockable.wait_noted(client, ticket, adapter,
      member.waits, plan.cancel)
  end
  local ended = math.min(core.now(), begun + limit)
  if not outage.note(member, plan, begun, ended, message,
      not took and code or nil) then
    return message, code
  end
end

-- OUT -> FAILING, without a run (I6). gap: since the last call.
local function is_forgotten(it, gap)
  if gap <= it.hold_off or holds(it) then
    return false
  end
  it.state, it.grace, it.hold_off = FAILING, 0, 0
  it.since, it.good, it.pinged = nil, nil, nil
  return true
end

-- OUT -> ANSWERS (I5)
local function is_over(client, it)
  if not it.good or core.now() - it.good < it.hold_off or holds(it) then
    return false
  end
  restore(client, it)
  return true
end

-- Pings it, unless its last answer is new. As ping.
local function ping_while_out(member, plan, it, old)
  local now = core.now()
  if not old and it.pinged and now - it.pinged < PING_EVERY
      and not member.client.engine:closed() then
    return nil
  end
  it.pinged = now
  holds(it) -- lets go of those that ended
  local message, code = ping(member, plan)
  if code then
    it.pinged = nil
  end
  return message, code
end

--- Message and code of the last sign of life of a store that is OUT; nil: its
--- lock is asked for (I4).
function outage.sign(member, plan)
  local client, grace = member.client, grace_of(member, plan)
  local it = known[client]
  if not it or it.state ~= OUT then
    return nil
  end
  it.hold_off = math.max(it.hold_off, plan.hold_off)
  local gap = core.now() - it.used
  local old = gap > math.max(grace, PING_EVERY)
  if old and is_forgotten(it, gap) then
    return nil
  end
  local message, code = ping_while_out(member, plan, it, old)
  if code then
    return message, code
  elseif it.state ~= OUT or is_over(client, it) then
    return nil
  end
  it.used = core.now()
  if not it.good and old then
    it.grace = 0
  end
  if it.good or grace <= it.grace then
    return it.message, it.code
  end
end

--- Asks anew (I7). Returns whether that was possible; else message, code.
function outage.look(member, plan)
  local it, message, code = known[member.client], nil, nil
  if it and it.state == OUT then
    message, code = outage.sign(member, plan)
  elseif it and it.since and core.now() - it.asked > PING_EVERY then
    message, code = ping(member, plan)
  end
  return code == nil or MEANS[code] ~= nil, message, code
end

--- Whether a weaker lock may be given; else message, code, and when it may be.
function outage.passes(member, plan)
  local client, grace = member.client, grace_of(member, plan)
  local it = known[client]
  if not it or it.state == FAILING and not it.since then
    return false, answers_again(client), "unavailable"
  elseif it.code ~= "unavailable" then -- I3
    return false, it.message, it.code
  elseif it.state == OUT and grace <= it.grace then -- I4
    return true
  end
  local ready = (it.since or core.now()) + grace
  if it.since and it.gap <= grace and it.asked >= ready then -- I1, I2
    return true
  end
  return false, it.message, it.code, ready
end

--- -> OUT: a weaker lock is given.
---@param inner dlock.lease its lease
function outage.enter(member, plan, inner)
  local it = known[member.client]
  it.state, it.told, it.used = OUT, true, core.now()
  it.grace = math.max(it.grace, grace_of(member, plan))
  it.hold_off = math.max(it.hold_off, plan.hold_off)
  local leases = core.owned(inner) and it.kept or it.weak
  leases[inner] = true
end

--- Whether weaker locks may be held here in its place.
function outage.is_out(client)
  return known[client] ~= nil and known[client].state == OUT
end

return outage
