-- `dlock run` and `dlock elect`. The lockable's own `with` takes and gives back
-- the lock, so its rules say what is lost, also at the release.
local child = require "dlock.cli.child"
local out = require "dlock.cli.out"
local signals = require "dlock.cli.signals"
local text = require "dlock.text"

local LOST = 70 -- exit status

local run = {}

local function choose_one(store, key, request)
  local options = request.options
  if request.verb.name == "elect" then
    return store:election(key)
  elseif options.shared then
    local rw, message, code = store:rwlock(key)
    if not rw then return nil, message, code end
    return rw:read()
  elseif options.permits then
    return store:semaphore(key, options.permits.of)
  end
  return store:mutex(key)
end

function run.choose(store, request)
  local list = {}
  for i, key in ipairs(request.words) do
    local message, code
    list[i], message, code = choose_one(store, key, request)
    if not list[i] then return nil, message, code end
  end
  return #list == 1 and list[1] or require("dlock.kinds.all").new(list)
end

--- With an empty value the store notes the fence, so others see it at once.
function run.acquire_options(request)
  local options = request.options
  return {
    timeout = options.n and 0 or request.timeout,
    permits = options.permits and options.permits.permits,
    min_hold = options["min-hold"], max_hold = options["max-hold"],
    value = options.value or "",
  }
end

-- The fences for a key of the jobs around this one.
local function fences_of_jobs(key)
  local found = {}
  local handle = text.of_word(os.getenv("DLOCK_HANDLE") or "")
  if handle:find(key, 1, true) then
    -- A Redlock's handle begins with the length of its first vote's, behind a 0
    -- for each server before that did not answer.
    local first, second = handle:match("^%a[^:]*:[0 ]*%d+ %d+ (%d+) (%d+) ")
    found[first or ""], found[second or ""] = true, true
  end
  for word, fence in (os.getenv("DLOCK_HELD") or ""):gmatch("(%S+)=(%d+)") do
    if text.of_word(word) == key then found[fence] = true end
  end
  return found
end

-- A message if a job around this one holds a key, and so would wait for itself.
local function waits_for_itself(store, request)
  for _, key in ipairs(request.words) do
    local ours = fences_of_jobs(key)
    local found = next(ours) and store:inspect(key)
    for _, holder in ipairs(found and found.holders or {}) do
      if holder.fence and ours[("%.0f"):format(holder.fence)] then
        return ("busy: %s is held by the job that this is part of, with fence"
          .. " %.0f; it would wait for itself"):format(text.quote(key),
          holder.fence)
      end
    end
  end
end

--- Takes the lock by attempt(timeout). Inside a job a try comes first, so a job
--- that would wait for itself is refused at once.
function run.patiently(store, request, timeout, attempt)
  local in_job = os.getenv("DLOCK_HELD") or os.getenv("DLOCK_HANDLE")
  if timeout > 0 and in_job then
    local done, message, code = attempt(0)
    if done or code ~= "busy" and code ~= "timeout" then
      return done, message, code
    end
    local problem = waits_for_itself(store, request)
    if problem then return nil, problem, "busy" end
  end
  return attempt(timeout)
end

-- Calls work(lease) under the lock, or once in a period.
local function with_lock(store, request, work)
  local period = request.options["once-per"]
  if period then
    return store:once_per(request.words[1], period, work)
  end
  local lock, message, code = run.choose(store, request)
  if not lock then return nil, message, code end
  local opts = run.acquire_options(request)
  return run.patiently(store, request, opts.timeout, function(timeout)
    opts.timeout = timeout
    return lock:with(opts, work)
  end)
end

-- The command is done, so its status counts; but others may wait until the end
-- of the lease.
local function tell_release(lease)
  local _, message, code = lease:release()
  if code == "unavailable" then
    out.complain(message .. "; the lock was not released, its ttl ends it")
  end
end

--- A signal ends the wait for the lock by an error until `waited` is called,
--- which returns an earlier one.
---@param waited fun(): integer|nil
---@return integer|nil status
function run.verb(store, request, waited)
  local over = request.tell_waiting(store)
  local held, status, reported
  local done, message, code = with_lock(store, request, function(lease)
    over()
    held = lease
    local signal = waited()
    if signal then
      status = 128 + signal
      return nil, "a signal came"
    end
    status, reported = child.run(request.command, lease,
      request.options["all-gone"])
    if not status then -- it never ran
      status, reported = reported, nil
    end
    if status ~= 0 then return nil, "the command failed" end
    return true
  end)
  signals.beside(nil)
  if held and code ~= "lost" then tell_release(held) end
  if done then
    return status
  elseif code ~= "lost" then
    return nil, message, code
  elseif not reported then
    out.complain(message)
  end
  return LOST
end

return run
