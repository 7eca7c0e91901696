-- n programs enter together and leave together, again and again.
--
-- A *member* holds a permit of the key, from enter to the begin of its leave; f
-- is the fence of that. Its limit never refuses, and says what n is. Its value
-- is a *token* that no other member has. A *pass up to v* is a hold on
-- key:ready with the fence v as its value. A member is *in* when its enter has
-- returned, and *waits* before.
--
--   I1  Who is in holds a pass up to a v >= f, from before its enter returns to
--       the end of its leave.
--   I2  A waiting member takes a pass up to v, and then is in, if it sees one
--       up to v >= f; or if n wait and v, the n-th smallest fence of theirs, is
--       no smaller than f.
--   I3  n members waited at one moment before the first of them got in by
--       counting. look() reads members, passes, and members again. A fence
--       stands for one hold, so one that it saw twice was a member all the
--       time. One that was in when the passes were read had a pass (I1), and is
--       not counted: its f is not above all passes.
--       A lost answer may leave a second permit of a member for a while: of one
--       token the largest fence is counted.
--   I4  A slow one gets in although others leave: these keep their passes until
--       there is no member with f <= v.
--   I5  Rounds do not mix: who comes after n were counted has a fence above v,
--       so no pass of that round lets it in, and no leave of it waits for it.
--
-- Crossings.
-- - A member dies: its holds end with its ttl or session, and it has left.
-- - The first that is in dies, or its leave is over by a time-out, before
--   others have seen its pass: fewer than n are there, and these wait on.
-- - A time-out of enter crosses n being there: the others are in, and it is out
--   as if it had left at once.
-- - The answer that tells a member its f is lost, and the store takes it back
--   and grants another one (Redis, PostgreSQL, MySQL). Who counted the first
--   before there was the second is in; this member waits on.
-- - A stale answer shows too few: there is another look in a BEAT.
local core = require "dlock.core"
local class = require "dlock.class"
local lease = require "dlock.lease"
local lockable = require "dlock.lockable"
local modes = require "dlock.modes"
local options = require "dlock.options"
local results = require "dlock.results"
local text = require "dlock.text"
local with = require "dlock.with"

local barrier, fail = {}, results.fail

local PASS = ":ready"
local NO_LIMIT = 2147483647
local BEAT = 1 -- seconds without news
local PAUSE, LONGEST_PAUSE = 0.005, 0.25 -- seconds between looks in vain

--- What store:barrier gives: one member.
---@class dlock.barrier
local methods = {}

local CLASS = class("barrier", methods, "; it takes no options")

local function inspect(state, key)
  return lockable.inspect { client = state.client, key = key }
end

local function holders(found)
  return found and found.holders or {}
end

-- The smallest v that lets f in, or nil, and the largest of all passes.
local function read_passes(found, f)
  local ours, past = nil, 0
  for _, holder in ipairs(holders(found)) do
    local v = tonumber(holder.value) or 0
    past = math.max(past, v)
    if v >= f and not (ours and ours <= v) then ours = v end
  end
  return ours, past
end

-- The fences above `past`, by size, one a token; known: only those in it.
local function read_members(found, past, known)
  local of_token = {}
  for _, holder in ipairs(holders(found)) do
    local f, token = holder.fence, holder.value or holder
    if f and f > past and not (known and not known[f]) then
      of_token[token] = math.max(of_token[token] or 0, f)
    end
  end
  local list = {}
  for _, f in pairs(of_token) do list[#list + 1] = f end
  table.sort(list)
  return list
end

-- I2, I3. Gives a table: v if f may be in, else how many wait, and the passes.
local function look(state, f)
  local members, message, code = inspect(state, state.key)
  if code then return nil, message, code end
  local passes
  passes, message, code = inspect(state, state.passes.key)
  if code then return nil, message, code end
  local ours, past = read_passes(passes, f)
  local list = read_members(members, past)
  if not ours and #list >= state.n then
    local known, again = {}
    for _, one in ipairs(list) do known[one] = true end
    again, message, code = inspect(state, state.key)
    if code then return nil, message, code end
    list = read_members(again, past, known)
    ours = list[state.n] and f <= list[state.n] and list[state.n]
  end
  return { v = ours, waiting = #list, passes = passes }
end

-- Until key has another first holder than `found` shows, or a BEAT, in which
-- the server may come back; in between looks in vain a lease of ours gives
-- pauses that grow.
local function await(state, key, found, deadline, ours, vain)
  local first = holders(found)[1]
  local left = math.min(deadline - core.now(), BEAT)
  local _, message, code = lockable.ask(state, "change", key,
    first and (first.fence or first.hold or -1) or 0, math.max(left, 0))
  if code == "timeout" then
    return 0
  elseif code and code ~= "unavailable" then
    return nil, message, code
  elseif code or vain > 0 then
    ours:wait_lost(math.min(PAUSE * 2 ^ (vain - 1), LONGEST_PAUSE,
      math.max(deadline - core.now(), 0)))
  end
  return vain + 1
end

local function lost(state)
  return fail("lost", ("this program's place in the barrier %s is gone")
    :format(text.quote(state.key)))
end

-- Whether this failure of a look ends the wait.
local function ends(code, deadline)
  return code and (code ~= "unavailable" or core.now() >= deadline)
end

-- The v of a pass that lets member in.
local function wait_for_all(state, member, deadline, timeout)
  local vain = 0
  while member:held() do
    local seen, message, code = look(state, member.fence)
    if ends(code, deadline) then
      return nil, message, code
    elseif seen and seen.v then
      return seen.v
    elseif seen and core.now() >= deadline then
      return fail("timeout", ("%d of %d were at the barrier %s after %s s")
        :format(seen.waiting, state.n, text.quote(state.key),
        text.number(timeout)))
    end
    vain, message, code = await(state, state.passes.key, seen and seen.passes,
      deadline, member, vain)
    if not vain then return nil, message, code end
  end
  return lost(state)
end

-- Neither ends by itself, whatever the store's defaults are.
local function hold(from, wait, opts)
  opts.renew, opts.max_hold, opts.min_hold = true, math.huge, 0
  return lockable.acquire(from, opts, wait)
end

local function join(state, timeout)
  local member, message, code = hold(state.members, true,
    { timeout = timeout, value = core.token() })
  if code == "invalid" and message:find("limit", 1, true) then
    return nil, ("%s (a barrier for another number than %d, or another kind of"
      .. " lock, has that key)"):format(message, state.n), code
  end
  return member, message, code
end

-- with.run releases this in place of the member: unless it is in.
local ENTRY = {
  [with.IS_OURS] = function(self) return self.member:held() end,
  release = function(self)
    if self.state.member == self.member then
      return true
    end
    local ok, message, code = self.member:release()
    if code == "unavailable" then
      self.message, self.code = message, code
    end
    return ok, message, code
  end,
}
ENTRY.__index = ENTRY

function ENTRY:__close()
  if self.state.member ~= self.member then
    lease.close(self.member)
  end
end

local function get_in(entry, deadline, timeout)
  local state, member = entry.state, entry.member
  while true do
    local v, message, code = wait_for_all(state, member, deadline, timeout)
    if not v then return nil, message, code end
    local pass
    pass, message, code = hold(state.passes, false,
      { value = ("%.0f"):format(v) })
    if pass then
      state.member, state.pass, state.v = member, pass, v
      return true
    elseif ends(code, deadline) then
      return nil, message, code
    end
    member:wait_lost(LONGEST_PAUSE)
  end
end

-- What the function said that with.run ran, whatever became of the lease.
local function said(done, ...)
  if done then
    return ...
  end
  return select(3, ...)
end

local function entered(entry, ok, message, code)
  if ok then
    return true
  elseif code == "timeout" and entry.code then
    return nil, entry.message, entry.code -- it may still be counted
  end
  return nil, message, code
end

local function check(self, timeout, extra, name)
  local state, call = CLASS.state_of(self, name), "barrier:" .. name
  options.check_end(extra, call, "a timeout")
  local bad = options.check_optional(timeout, "timeout", call)
  return state, timeout or state.client.base.timeout, bad
end

--- Returns `true` when n are there, or `timeout`: then this one is out again.
--- See [barriers](#barriers).
---@param timeout? number seconds (the store's `timeout`)
---@return true|nil
---@return string? message
---@return dlock.code? code timeout, lost, invalid, unavailable, closed
function methods:enter(timeout, extra)
  local state, patience, bad = check(self, timeout, extra, "enter")
  if bad then
    return fail("invalid", bad)
  elseif state.member then
    return fail("invalid", ("this object is in the barrier %s: leave it first")
      :format(text.quote(state.key)))
  end
  local deadline = core.now() + patience
  local member, message, code = join(state, patience)
  if not member then return nil, message, code end
  local entry = setmetatable({ state = state, member = member,
    key = state.key }, ENTRY)
  return entered(entry, said(with.run(entry, get_in, deadline, patience)))
end

-- I4
local function wait_for_none(pass, state, v, deadline, timeout)
  local vain = 0
  while pass:held() do
    local found, message, code = inspect(state, state.key)
    if ends(code, deadline) then return nil, message, code end
    local list = read_members(found, 0)
    if not code and (not list[1] or list[1] > v) then
      return true
    elseif not code and core.now() >= deadline then
      return fail("timeout", ("others are still in the barrier %s after %s s")
        :format(text.quote(state.key), text.number(timeout)))
    end
    vain, message, code = await(state, state.key, found, deadline, pass, vain)
    if not vain then return nil, message, code end
  end
  return lost(state)
end

--- Leaves at once, and returns `true` when all that entered together have left,
--- or `timeout`. See [barriers](#barriers).
---@param timeout? number seconds (the store's `timeout`)
---@return true|nil
---@return string? message
---@return dlock.code? code timeout, lost, unavailable, closed
function methods:leave(timeout, extra)
  local state, patience, bad = check(self, timeout, extra, "leave")
  if bad then return fail("invalid", bad) end
  local member, pass = state.member, state.pass
  if not member then
    return fail("lost", ("this object is not in the barrier %s: it has left, or"
      .. " never entered"):format(text.quote(state.key)))
  end
  local deadline = core.now() + patience
  state.member, state.pass = nil, nil
  local ok, message, code = member:release()
  if not ok then
    pass:release()
    return nil, message, code
  end
  return results.of(said(with.run(pass, wait_for_none, state, state.v,
    deadline, patience)))
end

function barrier.new(client, key, n)
  local place = { name = "barrier", mode = modes.semaphore, units = 1,
    cap = NO_LIMIT - n }
  return CLASS.new {
    client = client, key = key, n = n, shown = text.quote(key),
    members = { client = client, kind = place, base = client.base, key = key },
    passes = { client = client, kind = lockable.READER, base = client.base,
      key = key .. PASS },
  }
end

return barrier
