-- The leader is the holder of the lock, and `inspect` shows its value.
-- wait_change compares fences; 0 is no leader. The fence of a holder that is no
-- candidate may be uncertain: then the store's name of the hold is compared.
-- The object notes the last leadership that it saw, so it misses no change
-- between two calls.
local core = require "dlock.core"
local host = require "dlock.host"
local lockable = require "dlock.lockable"
local misuse = require "dlock.misuse"
local modes = require "dlock.modes"
local options = require "dlock.options"
local results = require "dlock.results"
local text = require "dlock.text"

local election, fail = {}, results.fail

-- With a value, even an empty one, a store notes the fence where all can read
-- it.
local KIND = { name = "election", mode = modes.exclusive, units = 0, cap = 0,
  value = "" }
local UNKNOWN = -1 -- of a holder that is no candidate

---@class dlock.leader
---@field owner string
---@field value? string
---@field fence? integer
---@field fence_at_most? true the fence is this or a smaller one

--- What store:election gives.
---@class dlock.election: dlock.lockable
local methods = {}

-- Notes the leadership that it sees; returns the note and the leader.
local function look(state)
  local found, message, code = lockable.inspect(state)
  if code then return nil, message, code end
  local first = found and found.holders[1]
  if not first then
    state.seen, state.hold = 0, nil
    return 0
  end
  local certain = not first.fence_at_most and first.fence
  state.seen, state.hold = certain or first.hold or UNKNOWN, first.hold
  return state.seen, {
    owner = first.owner,
    value = first.value,
    fence = first.fence,
    fence_at_most = first.fence_at_most,
  }
end

--- Returns a lease once we lead. Waits for ever unless `timeout` is given here
--- or to `store:election`. `value` is published. See [elections](#elections).
---@param opts? dlock.acquire_options
---@nodiscard
---@return dlock.lease|nil # ends with lease:resign(), or release
---@return string? message
---@return dlock.code? code
function methods:campaign(opts, extra)
  local state = lockable.state_of(self, "campaign", "election")
  options.check_end(extra, "election:campaign", "options")
  local bad = options.check(opts, "election:campaign")
  if bad then return fail("invalid", bad) end
  local own = { timeout = state.patience }
  for name, value in next, opts or {} do own[name] = value end
  return state.take(state, own, true)
end

--- Returns `{ owner, value, fence }`, `nil` and no message when nobody leads.
---@return dlock.leader|nil
---@return string? message
---@return dlock.code? code
function methods:leader(extra)
  local state = lockable.state_of(self, "leader", "election")
  options.check_end(extra, "election:leader", "no argument")
  local fence, leader, code = look(state)
  if not fence then
    return nil, leader, code
  end
  return leader
end

--- Replaces the value that `leader` shows, by the holder of the lease that this
--- object got last. Returns `true`; `lost` when it does not lead any more.
---@param value string up to 1024 bytes
---@return true|nil
---@return string? message
---@return dlock.code? code lost, invalid, unavailable, unsupported, closed
function methods:publish(value, extra)
  local state = lockable.state_of(self, "publish", "election")
  options.check_end(extra, "election:publish", "a value")
  if type(value) ~= "string" then
    misuse.raise("election:publish takes a string, not a %s", type(value))
  end
  local bad = options.check({ value = value }, "election:campaign")
  if bad then return fail("invalid", bad) end
  local lease = state.lead[1]
  if not lease then
    return fail("lost", ("this object does not lead %s")
      :format(text.quote(state.key)))
  elseif lease.mode ~= modes.exclusive then
    return fail("unsupported", ("the lease on %s was downgraded, and leads no"
      .. " more"):format(text.quote(state.key)))
  end
  local ok, message, code = host.ask(state.client, core.publish, lease, value)
  if ok == nil then return nil, message, code end
  return true
end

-- Wakes may be spurious, so it looks again.
local function wait_change(state, timeout)
  local before, deadline = state.seen, core.now() + timeout
  while true do
    local left = math.max(deadline - core.now(), 0)
    if left > 0 then
      local ok, message, code = lockable.ask(state, "change", state.key, before,
        left)
      if not ok then return nil, message, code end
    end
    local seen, message, code = look(state)
    if not seen then
      return nil, message, code
    elseif seen ~= before and state.hold ~= before then
      return true
    elseif left == 0 then
      return fail("timeout", ("the leader of %s did not change within %s s")
        :format(text.quote(state.key), text.number(timeout)))
    end
  end
end

--- Returns `true` when the leader is another one, or none, than the one that
--- this object saw last. A change between two calls is not missed.
---@param timeout? number seconds (for ever)
---@return true|nil
---@return string? message
---@return dlock.code? code timeout, cancelled, unavailable, closed
function methods:wait_change(timeout, extra)
  local state = lockable.state_of(self, "wait_change", "election")
  options.check_end(extra, "election:wait_change", "a timeout")
  local bad = options.check_optional(timeout, "timeout",
    "election:wait_change")
  if bad then return fail("invalid", bad) end
  if not state.seen then
    local fence, message, code = look(state)
    if not fence then return nil, message, code end
  end
  return wait_change(state, timeout or math.huge)
end

-- Notes the lease, without keeping it alive.
local function take(state, opts, wait)
  local lease, message, code = lockable.take(state, opts, wait)
  if not lease then return nil, message, code end
  state.lead[1] = lease
  return lease
end

local CLASS = lockable.class("election", methods)

function election.new(client, key, opts)
  local self = lockable.new(CLASS, KIND, client, key, opts)
  local state = lockable.state(self)
  state.patience = opts and rawget(opts, "timeout") or math.huge
  state.take, state.lead = take, setmetatable({}, { __mode = "v" })
  return self
end

return election
