-- The lease of dlock.all stands for one lease of each member, and has no fence.
--
-- Each member is released as if alone, because one can wait where another
-- cannot. So a release may end some and be called again; the members remember
-- their results. A detached member is another handle's to end.
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

local fail = results.fail

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

function all_lease.give_back(rest)
  for i = #rest, 1, -1 do
    rest[i].lease:release_later()
  end
end

-- All have the time of one, so a silent store is waited for once. Later members
-- get their release all the same, which ends later.
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

--- Calls end_one(lease, timeout) for each, in reverse. After an error (of a
--- debug hook) or the end of the coroutine the rest are released later, so
--- nothing stays renewed.
---@param timeout? number seconds for all (the longest io_timeout)
function all_lease.end_each(taken, end_one, timeout)
  local rest = setmetatable({}, REST)
  for i, one in ipairs(taken) do
    rest[i] = one
  end
  protect.closing(rest, end_or_give_back, rest, end_one, timeout)
end

-- Ends all by that method: true, or the first failure that left a lease held,
-- or else the first one.
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

local function releasing(name)
  local call = "lease:" .. name
  return function(self, given, extra)
    local _, state = list_of(self, name)
    options.check_end(extra, call, "a timeout or options")
    local bad, timeout, early = options.check_release(given, call)
    if bad then return fail("invalid", bad) end
    return end_by(state, "release", timeout, early)
  end
end

methods.release = releasing "release"

methods.resign = releasing "resign"

function methods:release_later(extra)
  local _, state = list_of(self, "release_later")
  options.check_end(extra, "lease:release_later", "no argument")
  return end_by(state, "release_later")
end

---@return number|nil remaining the least
function methods:extend(ttl, extra)
  local list = list_of(self, "extend")
  options.check_end(extra, "lease:extend", "a ttl")
  local bad = options.check_optional(ttl, "ttl", "lease:extend")
  if bad then return fail("invalid", bad) end
  for _, lease in ipairs(list) do
    local left, message, code = lease:extend(ttl)
    if not left then return nil, message, code end
  end
  return self:remaining()
end

function methods:held()
  for _, lease in ipairs((list_of(self, "held"))) do
    if not lease:held() then
      return false
    end
  end
  return true
end

function methods:remaining()
  local least = math.huge
  for _, lease in ipairs((list_of(self, "remaining"))) do
    least = math.min(least, lease:remaining())
  end
  return least
end

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

function methods:on_lost(fn, extra)
  local list = list_of(self, "on_lost")
  events.check_callback(fn, extra, "lease:on_lost")
  return on_first(self, list, "on_lost", fn)
end

function methods:on_revoke(fn, extra)
  local list = list_of(self, "on_revoke")
  events.check_callback(fn, extra, "lease:on_revoke")
  return on_first(self, list, "on_revoke", fn)
end

function methods:revoked()
  for _, lease in ipairs((list_of(self, "revoked"))) do
    if lease:revoked() then
      return true
    end
  end
  return false
end

function methods:wait_lost(timeout, extra)
  local list = list_of(self, "wait_lost")
  options.check_end(extra, "lease:wait_lost", "a timeout")
  local bad = options.check_optional(timeout, "timeout", "lease:wait_lost")
  if bad then return fail("invalid", bad) end
  return single.wait_first(list, timeout or math.huge)
end

for _, call in ipairs { "detach", "guard", "fence_sql", "downgrade" } do
  methods[call] = function(self)
    list_of(self, call)
    return fail("unsupported", ("a lease of dlock.all has no %s; use that of"
      .. " one of its leases, lease.leases[i]:%s(...)"):format(call, call))
  end
end

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

function meta.__close(self)
  all_lease.end_each(CLASS.state(self).taken, single.close)
end

---@param taken table[] { lease =, index = } in the order of taking
function all_lease.new(taken, shown)
  local list, shown_list = {}, {}
  for _, one in ipairs(taken) do
    list[one.index], shown_list[one.index] = one.lease, one.lease
  end
  return CLASS.new { taken = taken, list = list, shown_list = shown_list,
    shown = shown }
end

return all_lease
