-- All of several locks, or none. They are taken in one order for everybody
-- (members.lua), so no two wait for each other in a circle.
--
-- An attempt that ends (timeout, cancel, error) releases what it took, in
-- reverse. Until all are given each lease is provisional, without min_hold, and
-- a loss is noticed.
local all_lease = require "dlock.kinds.all_lease"
local core = require "dlock.core"
local lockable = require "dlock.lockable"
local members = require "dlock.kinds.members"
local misuse = require "dlock.misuse"
local options = require "dlock.options"
local protect = require "dlock.protect"
local results = require "dlock.results"
local single = require "dlock.lease"
local text = require "dlock.text"

local all, fail = {}, results.fail

local methods = {}

local function take_one(state, member, opts, plan)
  local left = math.max(plan.deadline - core.now(), 0)
  opts.timeout = plan.wait and left or nil
  local lease, message, code = member.take(member, opts,
    plan.wait and left > 0)
  if not lease and code == "busy" and plan.wait then
    return fail("timeout", ("%s of %s still held after %s s"):format(
      member.shown, state.shown, text.number(plan.timeout)))
  elseif not lease then
    return nil, message, code
  end
  plan.taken[#plan.taken + 1] = { lease = lease, index = member.index }
  if state.cancels ~= plan.cancels then
    return fail("cancelled", ("the wait for %s was cancelled")
      :format(state.shown))
  end
  return true
end

local function take_each(state, opts, plan)
  for _, member in ipairs(state.members) do
    local ok, message, code = take_one(state, member, opts, plan)
    if not ok then return nil, message, code end
  end
  for _, one in ipairs(plan.taken) do
    if not one.lease:held() then
      plan.again = plan.wait
      return fail(plan.code, ("%s was lost again while the rest of %s was"
        .. " waited for"):format(text.quote(one.lease.key), state.shown))
    end
  end
  return true
end

local function give_back(plan)
  all_lease.give_back(plan.taken)
end

-- One attempt; plan.again: another one makes sense.
local function take_all(state, opts, plan)
  local fine, ok, message, code = protect.call(take_each, state, opts, plan)
  if fine and ok then
    local taken = plan.taken
    local whole = all_lease.new(taken, state.shown)
    plan.taken = {}
    for _, one in ipairs(taken) do
      core.give(one.lease)
    end
    return whole
  elseif fine then
    all_lease.end_each(plan.taken, single.close)
    return nil, message, code
  end
  give_back(plan)
  error(ok, 0)
end

local PLAN = { __close = give_back }

local function take(state, opts, wait)
  local timeout = opts and rawget(opts, "timeout") or state.timeout
  local own = lockable.provisional(opts)
  local plan = setmetatable({ wait = wait and timeout > 0, timeout = timeout,
    deadline = core.now() + timeout, cancels = state.cancels,
    code = wait and "timeout" or "busy", taken = {} }, PLAN)
  local lease, message, code
  repeat -- PLAN's __close gives back when the coroutine is closed
    plan.taken, plan.again = {}, false
    lease, message, code = protect.closing(plan, take_all, state, own, plan)
  until not plan.again or core.now() >= plan.deadline
  return results.of(lease, message, code)
end

function methods:locked(extra)
  local state = lockable.state_of(self, "locked")
  options.check_end(extra, "all:locked", "no argument")
  for _, member in ipairs(state.members) do
    local held, message, code = lockable.ask(member, "locked", member.key)
    if held ~= false then
      return results.of(held, message, code)
    end
  end
  return false
end

methods.cancel = members.cancel

--- What dlock.all gives: its leases are each a dlock.leases.
---@class dlock.all: dlock.lockable
---@field acquire fun(self: dlock.all, opts?: dlock.acquire_options):
--- dlock.leases|nil, string?, dlock.code?

local CLASS = lockable.class("all", methods)

function all.new(list)
  local states, others = members.read(list, "dlock.all")
  for name in next, others do
    misuse.raise("the list of dlock.all has a field %s; it is an array",
      text.of_error(name))
  end
  states = members.sort(states, "dlock.all")
  local names = {}
  for i, member in ipairs(states) do names[i] = member.shown end
  return (members.object(CLASS, take, states, table.concat(names, ", ")))
end

return all
