-- A latch opens when n counts were made, by whatever programs, dead or alive.
--
-- A *count* is a permit of the key that min_hold keeps for the latch's ttl. Its
-- limit never refuses, and says what n is. Its value is a *token*. The *mark*
-- is a hold on key:open that min_hold keeps likewise.
--
--   I1  The store keeps a count or mark, once told, for ttl from its grant,
--       whatever becomes of the program (min_hold). One that its program was
--       not told of, because it died, ends with the store's own ttl or session.
--   I2  A count is counted once. Each draws a token, and tokens are counted. A
--       count_down that ended `unavailable` may have counted, or may do so
--       late; the next one of the object takes its token again.
--   I3  The latch is open while there is the mark. Each call that sees n tokens
--       at once sets the mark before it says so; then nobody counts.
--   I4  Counts and mark end by themselves, at ttl from their grants.
--
-- Crossings.
-- - A program dies between its count and the mark: a waiter sees n tokens
--   itself, at its next look. An untold count (I1) opens the latch for good, if
--   somebody looks in time; else it is missing again.
-- - Two that see n tokens set two marks, and both hold the latch open.
-- - The program that sets the mark dies likewise, behind an untold count: the
--   latch was open, and is shut again.
-- - The first count ends before the last is made: n are never there at once,
--   and the latch stays shut. With a mark it is open until that ends.
local core = require "dlock.core"
local class = require "dlock.class"
local lockable = require "dlock.lockable"
local modes = require "dlock.modes"
local options = require "dlock.options"
local results = require "dlock.results"
local text = require "dlock.text"

local latch, fail = {}, results.fail

local MARK, NOBODY = ":open", ":idle"
local NO_LIMIT = 2147483647 - 500 -- the larger ones are of barriers
local DAY = 86400
local BEAT = 1 -- seconds without news
local PAUSE = 0.25 -- seconds behind a wake in vain

--- What store:latch gives.
---@class dlock.latch
local methods = {}

local CLASS = class("latch", methods, "; options go into store:latch")

local function inspect(from)
  return lockable.inspect { client = from.client, key = from.key }
end

local function other_number(state)
  return ("a latch for another number than %d, or another kind of lock, has"
    .. " the key %s"):format(state.n, text.quote(state.key))
end

-- How many tokens are missing, and whether there is the mark.
local function missing(state)
  local found, message, code = inspect(state.marks)
  if found then return 0, true end
  if code then return nil, message, code end
  found, message, code = inspect(state.counts)
  if code then return nil, message, code end
  local tokens, left = {}, state.n
  if found and found.holders[1]
      and found.permits ~= state.counts.kind.cap then
    return fail("invalid", other_number(state))
  end
  for _, holder in ipairs(found and found.holders or {}) do
    if holder.value and not tokens[holder.value] then
      tokens[holder.value], left = true, left - 1
    end
  end
  return math.max(left, 0)
end

-- A hold that stays for the latch's ttl when it is given up.
local function keep(state, from, value, wait)
  local lease, message, code = lockable.acquire(from, { value = value,
    min_hold = state.ttl, renew = true, max_hold = math.huge }, wait)
  if not lease then return nil, message, code end
  lease:release() -- whatever it says: I1
  return true
end

-- How many counts are missing: I3.
local function look(state)
  local left, marked, code = missing(state)
  if left ~= 0 then
    return left, marked, code
  elseif not marked then
    local message
    marked, message, code = keep(state, state.marks, "", false)
    if not marked then return nil, message, code end
  end
  return left
end

-- A token that nobody else has, or that of a count that may have been made.
local function count(state)
  local token = table.remove(state.unknown) or core.token()
  local done, message, code = keep(state, state.counts, token, true)
  if code == "unavailable" then
    table.insert(state.unknown, token)
  elseif code == "invalid" and message:find("limit", 1, true) then
    message = ("%s (%s)"):format(message, other_number(state))
  end
  return done, message, code
end

--- Counts one, and returns `true`; the count stays when this program ends. A
--- call behind one that was `unavailable` is that one again, and counts once.
--- See [latches](#latches).
---@return true|nil
---@return string? message
---@return dlock.code? code unavailable, invalid, closed
function methods:count_down(extra)
  local state = CLASS.state_of(self, "count_down")
  options.check_end(extra, "latch:count_down", "no argument")
  local left, message, code = look(state)
  if not left then return nil, message, code end
  if left == 0 then return true end
  local done
  done, message, code = count(state)
  if not done then return nil, message, code end
  look(state) -- whatever it says: the count is made
  return true
end

--- Returns how many counts are missing: 0 when the latch is open.
---@return integer|nil
---@return string? message
---@return dlock.code? code unavailable, invalid, closed
function methods:count(extra)
  local state = CLASS.state_of(self, "count")
  options.check_end(extra, "latch:count", "no argument")
  return results.of(look(state))
end

-- Until the mark is set, or a BEAT, in which the server may come back. A
-- failure that comes at once ends the wait.
local function await(state, seconds, woken)
  local key = woken and state.key .. NOBODY or state.marks.key
  local limit = math.min(seconds, woken and PAUSE or BEAT)
  local start = core.now()
  local ok, message, code = lockable.ask(state, "change", key, 0, limit)
  if code and code ~= "timeout" and not (code == "unavailable"
      and core.now() - start >= limit / 2) then
    return nil, message, code
  end
  return true, ok
end

--- Returns `true` once the latch is open, else `timeout`; `unavailable` if the
--- server is not there then.
---@param timeout? number seconds (the store's `timeout`)
---@return true|nil
---@return string? message
---@return dlock.code? code timeout, unavailable, invalid, cancelled, closed
function methods:wait(timeout, extra)
  local state = CLASS.state_of(self, "wait")
  options.check_end(extra, "latch:wait", "a timeout")
  local bad = options.check_optional(timeout, "timeout", "latch:wait")
  if bad then return fail("invalid", bad) end
  timeout = timeout or state.client.base.timeout
  local deadline, woken = core.now() + timeout, false
  while true do
    local left, message, code = look(state)
    local seconds = deadline - core.now()
    if left == 0 then
      return true
    elseif not left and (code ~= "unavailable" or seconds <= 0) then
      return nil, message, code
    elseif seconds <= 0 then
      return fail("timeout", ("%d of %d counts were missing for the latch %s"
        .. " after %s s"):format(left, state.n, text.quote(state.key),
        text.number(timeout)))
    end
    local ok, changed
    ok, changed, code = await(state, seconds, woken)
    if not ok then return nil, changed, code end
    woken = not woken and changed
  end
end

function latch.new(client, key, n, opts)
  local kind = { name = "latch", mode = modes.semaphore, units = 1,
    cap = NO_LIMIT - n }
  return CLASS.new {
    client = client, key = key, n = n, shown = text.quote(key),
    ttl = opts and rawget(opts, "ttl") or DAY,
    unknown = {}, -- tokens
    counts = { client = client, kind = kind, base = client.base, key = key },
    marks = { client = client, kind = lockable.READER, base = client.base,
      key = key .. MARK },
  }
end

return latch
