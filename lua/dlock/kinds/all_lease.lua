-- The lease that dlock.all gives: it stands for one lease of each member, and
-- has no fence, since each member has one.
--
-- Each member is released as if it stood alone: one can wait where another
-- cannot. So a release may end some, and be called again; the members remember
-- their results. A member that was detached is another handle's to end.
local class = require "dlock.class"
local core = require "dlock.core"
local events = require "dlock.events"
local misuse = require "dlock.misuse"
local options = require "dlock.options"
local protect = require "dlock.protect"
local results = require "dlock.results"
local single = require "dlock.lease"
local text = require "dlock.text"
local with = require "dlock.with"

local all_lease = {}

--- What dlock.all's acquire gives: a lease that stands for several.
---@class dlock.leases: dlock.lease
---@field leases dlock.lease[] in the order of the list

local methods = {}

local CLASS = class("leases", methods)

local function list_of(self, call)
  local state = CLASS.state(self) or misuse.no_self("lease", call)
  return state.list, state
end

--- Has those that are still held released later.
function all_lease.give_back(rest)
  for i = #rest, 1, -1 do
    rest[i].lease:release_later()
  end
end

-- All of them together have as long as one of them would: a store that does not
-- answer is waited for once. Who comes behind it is sent its release all the
-- same, which ends it later.
local function end_in_turn(rest, end_one, timeout)
  local most, own = timeout or 0, {}
  for i, one in ipairs(rest) do
    own[i] = timeout or single.io_timeout(one.lease)
    most = math.max(most, own[i])
  end
  local deadline = core.now() + most
  for i = #rest, 1, -1 do
    local left = math.max(deadline - core.now(), 0)
    end_one(rest[i].lease, math.min(left, own[i]))
    rest[i] = nil
  end
end

local function end_or_give_back(rest, end_one, timeout)
  local ok, problem = protect.call(end_in_turn, rest, end_one, timeout)
  if not ok then
    all_lease.give_back(rest)
    error(problem, 0)
  end
end

local REST = { __close = all_lease.give_back }

--- Calls end_one(lease, timeout) for each, in reverse. An error in one (of a
--- debug hook, as Ctrl-C raises it in a wait), or the end of its coroutine,
--- leaves none to be renewed by nobody: the rest are released later, without a
--- wait.
---@param timeout? number seconds for all together (the longest io_timeout)
function all_lease.end_each(taken, end_one, timeout)
  local rest = setmetatable({}, REST)
  for i, one in ipairs(taken) do
    rest[i] = one
  end
  protect.closing(rest, end_or_give_back, rest, end_one, timeout)
end

-- Ends each by that method: true, or the first failure after which a lease is
-- still held, or the first of the others.
local function end_by(state, call, timeout, early)
  local result = { true }
  all_lease.end_each(state.taken, function(lease, left)
    if core.has_parted(lease) then
      return
    end
    local ok, message, code = lease[call](lease,
      early and { timeout = left, early = true } or left)
    local held = not ok and lease:held()
    if not ok and (result[1] or held and not result.held) then
      result = { nil, message, code, held = held }
    end
  end, timeout)
  return results.of(result[1], result[2], result[3])
end

-- The method of that name: it ends them all.
local function releasing(name)
  local call = "lease:" .. name
  return function(self, given)
    local _, state = list_of(self, name)
    local bad, timeout, early = options.check_release(given, call)
    if bad then return nil, bad, "invalid" end
    return end_by(state, "release", timeout, early)
  end
end

--- Releases all, in reverse; a failure of one is the result.
---@param given? number|dlock.release_options seconds for all together (the
--- longest io_timeout)
methods.release = releasing "release"

--- The same: an elected leader's word for it.
methods.resign = releasing "resign"

--- Has the renewal thread release them and returns at once.
---@return dlock.code? code forked
function methods:release_later()
  local _, state = list_of(self, "release_later")
  return end_by(state, "release_later")
end

--- All of them now end ttl seconds from now, or each by its own ttl.
---@param ttl? number seconds
---@return number|nil remaining the least
function methods:extend(ttl)
  local list = list_of(self, "extend")
  local bad = options.check_optional(ttl, "ttl", "lease:extend")
  if bad then return nil, bad, "invalid" end
  for _, lease in ipairs(list) do
    local left, message, code = lease:extend(ttl)
    if not left then return nil, message, code end
  end
  return self:remaining()
end

--- Whether all of them are held. No I/O.
function methods:held()
  for _, lease in ipairs((list_of(self, "held"))) do
    if not lease:held() then
      return false
    end
  end
  return true
end

--- Seconds until the first of them ends by our own count. No I/O.
function methods:remaining()
  local least = math.huge
  for _, lease in ipairs((list_of(self, "remaining"))) do
    least = math.min(least, lease:remaining())
  end
  return least
end

-- Runs fn once, with the whole, at the first event of any of them.
local function on_first(self, list, subscribe, fn)
  local ran = false
  for _, lease in ipairs(list) do
    lease[subscribe](lease, function(_, reason)
      if not ran then
        ran = true
        fn(self, reason)
      end
    end)
  end
  return true
end

--- Runs fn(lease, reason) once, when the first of them is seen to be lost.
function methods:on_lost(fn)
  local list = list_of(self, "on_lost")
  events.check_callback(fn, "lease:on_lost")
  return on_first(self, list, "on_lost", fn)
end

--- Runs fn(lease, reason) once, when somebody asks for one of them.
function methods:on_revoke(fn)
  local list = list_of(self, "on_revoke")
  events.check_callback(fn, "lease:on_revoke")
  return on_first(self, list, "on_revoke", fn)
end

--- Whether somebody asked for one of them.
function methods:revoked()
  for _, lease in ipairs((list_of(self, "revoked"))) do
    if lease:revoked() then
      return true
    end
  end
  return false
end

--- Waits until one of them is lost.
---@param timeout? number seconds (for ever)
---@return dlock.code? code timeout, cancelled, closed
function methods:wait_lost(timeout)
  local list = list_of(self, "wait_lost")
  local bad = options.check_optional(timeout, "timeout", "lease:wait_lost")
  if bad then return nil, bad, "invalid" end
  return single.wait_first(list, timeout or math.huge)
end

-- What works on one lease only.
for _, call in ipairs { "detach", "guard", "downgrade" } do
  methods[call] = function(self)
    list_of(self, call)
    return nil, ("unsupported: a lease of dlock.all has no %s; use that of one"
      .. " of its leases, lease.leases[i]:%s(...)"):format(call, call),
      "unsupported"
  end
end

-- What they are together, if they are not all held.
local function state_of(list)
  local state = "released"
  for _, lease in ipairs(list) do
    local how = core.ended_how(lease)
    if how == "lost" then
      return how
    elseif not how then
      state = "partly held"
    end
  end
  return state
end

-- None of it was lost: all are held, or what is not was given up.
methods[with.IS_OURS] = function(self)
  return state_of(CLASS.state(self).list) ~= "lost"
end

local meta = CLASS.meta

function meta.__newindex()
  misuse.raise "a lease is read-only"
end

function meta.__index(self, name)
  if name == "leases" then
    return CLASS.state(self).shown_list
  end
  return methods[name]
end

function meta.__tostring(self)
  local state = CLASS.state(self)
  return ("dlock.leases: %s %s"):format(state.shown, self:held()
    and ("held %ss"):format(text.tenths(self:remaining()))
    or state_of(state.list))
end

-- Lua 5.4: each as a lease that stands alone.
function meta.__close(self)
  all_lease.end_each(CLASS.state(self).taken, single.close)
end

--- taken: { lease =, index = } in the order in which they were taken.
---@param shown string their names
function all_lease.new(taken, shown)
  local list, shown_list = {}, {}
  for _, one in ipairs(taken) do
    list[one.index], shown_list[one.index] = one.lease, one.lease
  end
  return CLASS.new { taken = taken, list = list, shown_list = shown_list,
    shown = shown }
end

return all_lease
