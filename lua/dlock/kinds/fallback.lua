-- A lock, and others in its place while its store is down (I1 to I7:
-- outage.lua). The time of a call:
--
--   T1  The first attempt on a lock with others behind it gets half of the time
--       left, and half of that is for taking back what it asked.
--   T2  A store that answers `timeout` works: its lock is waited for until the
--       end.
--   T3  A grace that ends in time is waited for. An attempt that fails at once
--       is the last.
--   T4  A weaker lock whose reason is gone at its grant is given back, and all
--       begins anew.
--
-- A lease is provisional until the program gets it, so no other is kept for its
-- min_hold.
local canceller = require "dlock.canceller"
local core = require "dlock.core"
local degraded_lease = require "dlock.kinds.fallback_lease"
local events = require "dlock.events"
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

local fallback, fail = {}, results.fail

local SLICE = 60 -- half of for ever
local AT_ONCE = 0.01

local methods = {}

-- Asks one lock until `ends` (T1).
local function ask(state, plan, member, ends)
  local opts, hasty = plan.opts, ends < plan.deadline
  local left = math.max(ends - core.now(), 0) * (hasty and 1 / 2 or 1)
  opts.timeout, opts.settle = plan.wait and left or nil, hasty and left or nil
  local lease, message, code
  if state.cancels == plan.cancels then
    lease, message, code = member.take(member, opts, plan.wait and left > 0)
  end
  if state.cancels ~= plan.cancels then
    if lease then single.close(lease) end
    return fail("cancelled", ("the wait for %s was cancelled")
      :format(state.shown))
  elseif code == "busy" and plan.wait then
    return nil, "timeout" .. message:sub(#code + 1), "timeout"
  end
  return lease, message, code
end

local function rest(plan)
  return plan.deadline < math.huge and plan.deadline or core.now() + SLICE
end

-- plan.passed: the next lock may be given.
local function take_first(state, plan, member)
  local ends = core.now() + math.min((plan.deadline - core.now()) / 2, SLICE)
  while true do
    local begun, lease = core.now(), nil
    local message, code = outage.sign(member, plan)
    local asks = not code
    if asks then
      local asked = core.now()
      lease, message, code = ask(state, plan, member, ends)
      local ended = core.now()
      if plan.wait and asked < ends then -- the process may have stood still
        ended = math.min(ended, ends)
      end
      outage.note(member, plan, asked, ended, message, code)
    end
    local now = core.now()
    if lease and outage.is_out(member.client) then -- I4
      single.close(lease)
      ends = rest(plan)
    elseif code == "timeout" and now < plan.deadline then -- T2
      ends = rest(plan)
    elseif code ~= "unavailable" then -- I3
      return lease, message, code
    else
      local ready = outage.ready(member, plan)
      plan.passed = ready == 0
      if plan.passed or not asks then return nil, message, code end
      local left = ready - now
      local at_once = now - begun < AT_ONCE and left > AT_ONCE
      if at_once or now >= plan.deadline then -- T3
        return nil, ("%s; the next lock of %s is given after %s s more of that")
          :format(message, state.shown, text.tenths(left)), code
      end
      ends = math.min(plan.deadline, ready)
    end
  end
end

-- Why the program refuses the weaker lock, or nil. An error is no consent.
-- Nothing is held meanwhile.
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

-- Message and code if no weaker lock may be given now (I7).
local function fails(state, plan, place)
  for i = 1, place - 1 do
    local message, code = outage.look(state.members[i], plan)
    if code then
      return message, code
    end
  end
  for i = 1, place - 1 do
    local ready, message, code = outage.ready(state.members[i], plan)
    if ready ~= 0 then
      plan.again = true -- T4
      return message, code
    end
  end
end

local function degraded(state, plan, inner, place)
  local message, code = fails(state, plan, place)
  if code then
    single.close(inner)
    return nil, message, code
  end
  for i = 1, place - 1 do
    outage.enter(state.members[i], plan, inner)
  end
  local to = state.members[place]
  for i = 1, place - 1 do
    local client = state.members[i].client
    host.run_callbacks(client, { function()
      events.event(client, "degraded", ("degraded: %s is locked in %s while %s"
        .. " is unavailable: whoever can reach that does not see this lock")
        :format(to.shown, to.client.shown, client.shown), to.key)
    end })
  end
  core.give(inner)
  return degraded_lease.new(inner)
end

-- plan.again: it has to begin anew.
local function go_through(state, plan)
  plan.again = false
  for i, member in ipairs(state.members) do
    local following = state.members[i + 1]
    local lease, message, code
    plan.passed = false
    if following then
      lease, message, code = take_first(state, plan, member)
    else
      lease, message, code = ask(state, plan, member, plan.deadline)
    end
    if lease and i > 1 then
      return degraded(state, plan, lease, i)
    elseif lease then
      core.give(lease)
    end
    local no = plan.passed and refused(state, member, following, message)
    if no then
      return nil, ("%s; %s"):format(message, no), code
    elseif not plan.passed then
      return lease, message, code
    end
  end
end

local function take(state, given, wait)
  local opts = lockable.provisional(given)
  local timeout = wait and (opts.timeout or state.timeout) or 0
  local plan = { opts = opts, wait = timeout > 0, cancels = state.cancels,
    cancel = opts.cancel and canceller.state(opts.cancel),
    deadline = core.now() + timeout, grace = state.grace or opts.ttl,
    hold_off = state.hold_off }
  local lease, message, code
  repeat
    lease, message, code = go_through(state, plan)
  until not plan.again or core.now() >= plan.deadline
  return results.of(lease, message, code)
end

--- While the first store is OUT, a weaker lock may be held, so the next is
--- asked too.
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

function fallback.new(list)
  local states, opts = members.read(list, "dlock.fallback")
  local bad = options.check(opts, "dlock.fallback")
  if bad then return fail("invalid", bad) end
  members.sort(states, "dlock.fallback")
  local names = {}
  for i, member in ipairs(states) do
    names[i] = ("%s in %s"):format(member.shown, member.client.shown)
  end
  local self, state = members.object(CLASS, take, states,
    table.concat(names, ", else "))
  state.grace, state.on_degraded = opts.grace, opts.on_degraded
  state.hold_off = opts.hold_off or options.default("hold_off")
  return self
end

return fallback
