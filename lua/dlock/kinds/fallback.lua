-- A lock, and others in place of it while its store is down.
--
-- The locks of the list are asked in their order. The next one is asked only if
-- the one before is `unavailable`, which it is given at most half of the
-- timeout to find out, and only if it has been so for `grace` seconds
-- (outage.lua says why, and what each answer means). Every other answer is the
-- answer of the whole: busy, denied or a timeout come from a store that works,
-- and others are obeying it.
-- What an attempt leaves behind in a store that did not answer is taken back by
-- that store, as after any other acquire. A lease is provisional until it is
-- the one that the program gets, so that no other is kept for its min_hold.
--
-- Half of that half is for taking back what was asked: a store that hangs would
-- take its io_timeout for that. So the first wait, at the end of which it is
-- known whether the store answers, is a quarter of the timeout; if it does, the
-- rest of the time is waited there again, as one who came then.
--
-- With skip = true no grace is waited for in vain: those behind are asked for a
-- sign of life as soon as one is unavailable.
local canceller = require "dlock.canceller"
local core = require "dlock.core"
local events = require "dlock.events"
local fallback_lease = require "dlock.kinds.fallback_lease"
local host = require "dlock.host"
local lockable = require "dlock.lockable"
local members = require "dlock.kinds.members"
local options = require "dlock.options"
local outage = require "dlock.kinds.outage"
local protect = require "dlock.protect"
local results = require "dlock.results"
local single = require "dlock.lease"
local text = require "dlock.text"

--- What on_degraded is called with.
---@class dlock.degraded
---@field key string
---@field message string
---@field unavailable string the store that does not answer
---@field instead string the store that is asked next

local fallback = {}

local SLICE = 60 -- seconds; half of for ever
local AT_ONCE = 0.01 -- seconds; an answer that nobody waited for

local methods = {}

local function cancelled(state)
  return nil, ("cancelled: the wait for %s was cancelled")
    :format(state.shown), "cancelled"
end

-- Asks one lock until then; hasty: that is the end of taking it back, too.
local function ask(state, plan, member, until_then, hasty)
  if state.cancels ~= plan.cancels then
    return cancelled(state)
  end
  local left = math.max(until_then - core.now(), 0)
  left = hasty and left / 2 or left
  plan.opts.timeout = plan.wait and left or nil
  plan.opts.settle = hasty and left or nil
  local lease, message, code = member.take(member, plan.opts,
    plan.wait and left > 0)
  if code == "busy" and plan.wait then
    code, message = "timeout", message:gsub("^busy", "timeout")
  end
  if lease and state.cancels ~= plan.cancels then
    single.close(lease)
    return cancelled(state)
  end
  return lease, message, code
end

local function grace_of(state, plan, member)
  return state.grace or plan.opts.ttl or member.base.ttl
end

-- Notes what an answer means for all users of the store here. The last result:
-- what they know forbids to use it, or to wait for another one.
local function note(member, lease, message, code, begun, over)
  local client = member.client
  if code == "unavailable" then
    outage.failed(client, message, begun, over)
  elseif outage.is_answer(code) then
    local fine, why = outage.answered(client)
    if lease and not fine then
      single.close(lease)
    end
    if not fine and (lease or code == "timeout") then
      return nil, why, "unavailable", true
    end
  end
  return lease, message, code
end

-- Asks a lock that others stand behind, until then. The last results: it may be
-- passed; nobody waited for the answer, so to ask again would be no better.
local function attempt(state, plan, member, until_then)
  local begun = core.now()
  local lease, message, code = ask(state, plan, member, until_then,
    until_then < plan.deadline)
  local at_once =
    core.now() - begun < math.min((until_then - begun) / 2, AT_ONCE)
  local out
  lease, message, code, out = note(member, lease, message, code, begun,
    plan.wait and until_then or math.huge)
  return lease, message, code, out, at_once
end

local function skipped(state, message)
  return nil, ("busy: %s is skipped, as skip = true asks: %s")
    :format(state.shown, message), "busy"
end

-- How long a ping may take: of a wait, this share of what is left.
local function limit(plan, share)
  return outage.limit(plan.wait and (plan.deadline - core.now()) * share
    or math.huge)
end

-- Whether any store behind that place answers. Its lock is not asked for: it
-- could not be given yet.
local function any_answers(state, plan, place)
  for i = place + 1, #state.members do
    if outage.is_there(state.members[i], limit(plan, 1), plan.cancel) then
      return true
    end
  end
  return false
end

-- Its store is unavailable, and has not been so for long enough: what is
-- answered, or nil: another attempt.
local function in_grace(state, plan, place, message, left, at_once)
  local late = core.now() >= plan.deadline
  if state.skip and not (plan.wait and late)
      and not any_answers(state, plan, place) then
    return skipped(state, message)
  elseif at_once or late then
    return nil, ("%s; the next lock of %s is given after %s s more of that")
      :format(message, state.shown, text.tenths(left)), "unavailable"
  end
end

-- Asks the lock of that place, which is not the last, in as many attempts as it
-- takes. The last result: it may be passed. That is so only after our own
-- grace, also if the store is out for another one whose grace was shorter.
local function ask_first(state, plan, place)
  local member = state.members[place]
  local client, grace = member.client, grace_of(state, plan, member)
  local out, why, answer = outage.goes_on(member, grace, state.hold_off,
    limit(plan, 1 / 2), plan.cancel)
  local ends = outage.ends_grace(client, grace)
  local waits = ends and core.now() < ends -- another one's grace was shorter
  if out and not (waits and answer == "unavailable") then
    return nil, why, answer, answer == "unavailable"
  end
  local slice = math.min((plan.deadline - core.now()) / 2, SLICE)
  local until_then = core.now() + slice
  while true do
    local lease, message, code, passed, at_once = attempt(state, plan, member,
      until_then)
    local now = core.now()
    local ready = outage.ends_grace(client, grace) or now
    if code == "timeout" and now < plan.deadline then
      until_then = plan.deadline < math.huge and plan.deadline or now + SLICE
    elseif code ~= "unavailable" then
      return lease, message, code
    elseif now >= ready then
      return nil, message, code, true
    else
      message, code = select(2, in_grace(state, plan, place, message,
        ready - now, passed or at_once))
      if code then
        return nil, message, code
      end
      until_then = math.min(plan.deadline, ready)
    end
  end
end

-- Why the program does not want the weaker lock, or nil; called where nothing
-- is held. An error is no consent.
local function refused(state, from, to, message)
  if not state.on_degraded then
    return nil
  end
  local ok, answer = protect.call(state.on_degraded, { key = to.key,
    message = message, unavailable = from.client.shown,
    instead = to.client.shown })
  if not ok then
    host.run_callbacks(from.client, { function()
      events.raised(from.client, "on_degraded", answer, to.key)
    end })
    return "on_degraded raised an error, so the next lock is not given"
  elseif answer == false then
    return "on_degraded refused the next lock"
  end
end

-- Whether what all those before its place were passed for still stands.
local function all_stand(state, plan, place)
  for i = 1, place - 1 do
    local from = state.members[i]
    outage.look(from, grace_of(state, plan, from), state.hold_off,
      limit(plan, 1), plan.cancel)
  end
  for i = 1, place - 1 do -- nobody else runs from here on
    local from = state.members[i]
    local fine, why, code = outage.stands(from.client,
      grace_of(state, plan, from))
    if not fine then
      return false, why, code
    end
  end
  return true
end

-- A lock was granted instead of those before its place. If one of their stores
-- answers again, it is given back, and all begins anew.
local function degraded(state, plan, inner, place)
  local lease, to = fallback_lease.new(inner), state.members[place]
  local fine, why, code = all_stand(state, plan, place)
  if not fine then
    plan.again = true
    single.close(inner)
    return nil, why, code
  end
  for i = 1, place - 1 do
    outage.enter(state.members[i].client, lease, inner, state.hold_off)
  end
  for i = 1, place - 1 do
    local from = state.members[i].client
    outage.tell(from, ("degraded: %s is locked in %s while %s is"
      .. " unavailable: whoever can reach that does not see this lock")
      :format(to.shown, to.client.shown, from.shown), lease.key)
  end
  core.give(inner)
  return lease
end

local function new_plan(state, opts, wait)
  local timeout = wait and (opts and rawget(opts, "timeout") or state.timeout)
    or 0
  local cancel = opts and rawget(opts, "cancel")
  return { opts = lockable.provisional(opts), wait = timeout > 0,
    cancels = state.cancels, cancel = cancel and canceller.state(cancel),
    deadline = core.now() + timeout }
end

-- The lock of that place, asked in its turn. The last result: go on.
local function take_one(state, plan, i, message)
  local before, member = state.members[i - 1], state.members[i]
  local no = before and refused(state, before, member, message)
  if no then
    return nil, ("%s; %s"):format(message, no), "unavailable"
  end
  local lease, code, passed
  if i < #state.members then
    lease, message, code, passed = ask_first(state, plan, i)
  else
    lease, message, code = ask(state, plan, member, plan.deadline)
    passed = code == "unavailable"
  end
  if lease and before then
    return degraded(state, plan, lease, i)
  elseif lease then
    core.give(lease)
  end
  return lease, message, code, passed
end

local function take_first(state, plan)
  local message
  for i = 1, #state.members do
    local lease, code, passed
    lease, message, code, passed = take_one(state, plan, i, message)
    if not passed then
      return lease, message, code
    end
  end
  if state.skip then
    return skipped(state, message)
  end
  return nil, message, "unavailable"
end

local function take(state, opts, wait)
  local plan = new_plan(state, opts, wait)
  local lease, message, code
  repeat
    plan.again = false
    lease, message, code = take_first(state, plan)
  until not plan.again or core.now() >= plan.deadline
  return results.of(lease, message, code)
end

--- Whether somebody holds it: in the first store that answers, and, while that
--- one is out for this process, which may hold another lock in its place, in
--- the next ones.
---@return boolean|nil
---@return string? message
---@return string? code
function methods:locked()
  local state = lockable.state_of(self, "locked")
  local held, message, code
  for _, member in ipairs(state.members) do
    held, message, code = lockable.ask(member, "locked", member.key)
    local goes_on = held == false and outage.is_out(member.client)
    if code ~= "unavailable" and not goes_on then
      break
    end
  end
  return results.of(held, message, code)
end

methods.cancel = members.cancel

local CLASS = lockable.class("fallback", methods)

-- The options that stand beside the locks.
local function read_options(list, states)
  local opts = {}
  for name, value in next, list do
    if not states[name] then opts[name] = value end
  end
  return opts
end

--- A lockable over others: the first, or the next while that is unavailable.
---@param list dlock.fallback_list
function fallback.new(list)
  members.check(list, "dlock.fallback", 3)
  local state = { take = take, cancels = 0 }
  local self = lockable.object(CLASS, state)
  local states = members.read(list, state.waits, "dlock.fallback", 3)
  local opts = read_options(list, states)
  local bad = options.check(opts, "dlock.fallback", 3)
  if bad then
    return nil, bad, "invalid"
  end
  members.sort(states, "dlock.fallback", 3)
  state.members = states
  state.grace, state.on_degraded = opts.grace, opts.on_degraded
  state.hold_off = opts.hold_off or options.default("hold_off")
  state.skip = opts.skip
  local names = {}
  for i, member in ipairs(states) do
    names[i] = ("%s in %s"):format(member.shown, member.client.shown)
  end
  state.timeout = members.timeout(states)
  state.client = states[1].client
  state.shown = "{ " .. table.concat(names, ", else ") .. " }"
  return self
end

return fallback
