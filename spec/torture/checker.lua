-- Says from the records of a run (spec/torture/records.lua) what was wrong in
-- it. Pure: it sees lists and gives lists of sentences.
--
-- A hold is believed from `start` to `last`: the first is taken after acquire
-- had returned, the second before a held() that answered true. So the real
-- interval is a little longer than the recorded one, and two records that meet
-- are two holders.
--
-- Fences: where one of two holds is exclusive, whichever was believed first was
-- granted first, so its fence is smaller. Readers and permits among themselves
-- may come in together, in any order.

local checker = {}

local SHOWN = 5 -- of each kind of problem

local function describe(h)
  return ("%s %s%s fence %.0f by %s, %.3f to %.3f"):format(h.key, h.mode,
    h.mode == "p" and ("%d/%d"):format(h.units, h.cap) or "", h.fence, h.by,
    h.start, h.last)
end

local function add(list, text, ...)
  list.count = list.count + 1
  if #list < SHOWN then
    list[#list + 1] = text:format(...)
  end
end

local function new_list()
  return { count = 0 }
end

-- Lists by key, each in the order in which its holds were believed. A lease
-- that was over when it came, because its process had been stopped, never was.
local function by_key(holds)
  local keys = {}
  for _, h in ipairs(holds) do
    keys[h.key] = keys[h.key] or {}
    if h.last >= h.start then
      table.insert(keys[h.key], h)
    end
  end
  for _, list in pairs(keys) do
    table.sort(list, function(a, b)
      if a.start ~= b.start then return a.start < b.start end
      return a.fence < b.fence
    end)
  end
  return keys
end

local function in_windows(time, windows)
  for _, w in ipairs(windows or {}) do
    if time >= w.from and time <= w.to then
      return true
    end
  end
  return false
end

-- Two that may not hold together. Of permits the sum counts, see below.
local function conflict(a, b)
  return a.mode == "x" or b.mode == "x" or a.mode ~= b.mode
end

-- Looks at the holds of one key against those still believed when they began.
local function look_for_overlaps(list, excused, found)
  local active = {}
  for _, b in ipairs(list) do
    local still, units = {}, b.units
    for _, a in ipairs(active) do
      if a.last > b.start then
        still[#still + 1] = a
        units = units + a.units
        if not conflict(a, b) then
          a = nil
        end
        if a and in_windows(b.start, excused) then
          found.excused = found.excused + 1
        elseif a then
          add(found.overlaps, "%s while %s", describe(b), describe(a))
        end
      end
    end
    if b.mode == "p" and units > b.cap and #still > 0
      and not in_windows(b.start, excused) then
      add(found.overlaps, "%d permits of %d with %s", units, b.cap, describe(b))
    end
    still[#still + 1] = b
    active = still
  end
end

-- highest, writers: the largest fence so far, of all and of the exclusive.
local function look_at_fences(list, found)
  local highest, writers = nil, nil
  for _, b in ipairs(list) do
    local before = b.mode == "x" and highest or writers
    local rises = not before or b.fence > before.fence
      or b.carried and b.fence == before.fence
    if not rises then
      add(found.fences, "%s after %s", describe(b), describe(before))
    end
    if not highest or b.fence > highest.fence then
      highest = b
    end
    if b.mode == "x" and (not writers or b.fence > writers.fence) then
      writers = b
    end
  end
end

--- Overlaps and fences. excused: windows (from, to) in which a hold that begins
--- may meet another one (a restart with older data, which promises no more);
--- fences rise all the same.
function checker.holds(holds, excused)
  local found = { overlaps = new_list(), fences = new_list(), excused = 0,
    modes = { x = 0, s = 0, p = 0 } }
  for _, list in pairs(by_key(holds)) do
    look_for_overlaps(list, excused, found)
    look_at_fences(list, found)
    for _, h in ipairs(list) do
      found.modes[h.mode] = found.modes[h.mode] + 1
    end
  end
  return found
end

-- For how long of [from, to] a process was stopped.
local function stopped(stops, from, to)
  local sum = 0
  for _, stop in ipairs(stops or {}) do
    sum = sum + math.max(0, math.min(to, stop.to or to)
      - math.max(from, stop.from))
  end
  return sum
end

--- The parts of calms (from, to) in which no server was silent, and for how
--- many seconds of them one was. silences: { from, to }, without a `to` when it
--- never ended; they may overlap.
function checker.cut(calms, silences)
  local sorted, parts, silent = {}, {}, 0
  for i, one in ipairs(silences) do
    sorted[i] = one
  end
  table.sort(sorted, function(a, b) return a.from < b.from end)
  for _, calm in ipairs(calms) do
    local from = calm.from
    for _, one in ipairs(sorted) do
      local to = math.min(one.to or calm.to, calm.to)
      if to > from and one.from < calm.to then
        if one.from > from then
          parts[#parts + 1] = { from = from, to = one.from }
        end
        silent = silent + to - math.max(from, one.from)
        from = to
      end
    end
    if calm.to > from then
      parts[#parts + 1] = { from = from, to = calm.to }
    end
  end
  return parts, silent
end

local ALLOWED = { ok = true, busy = true, timeout = true, cancelled = true,
  lost = true, unavailable = true, ["-"] = true }

-- The longest part of a call that lies in one calm.
local function in_calm(call, ends, calms)
  local longest = 0
  for _, calm in ipairs(calms) do
    longest = math.max(longest,
      math.min(ends, calm.to) - math.max(call.asked, calm.from))
  end
  return longest
end

--- Calls that took longer than they may, waits that a calm did not end, and
--- answers that nothing explains. life: for each worker's name its stops and
--- when it ended; limits: slack (above a call's bound), calm (how long a wait
--- may last in a calm), calms.
function checker.calls(calls, life, limits)
  local found = { late = new_list(), stuck = new_list(),
    strange = new_list(), codes = {}, longest = 0 }
  for _, call in ipairs(calls) do
    local mine = life[call.by] or {}
    local ends = call.returned or mine.ended or math.huge
    local awake = ends - call.asked - stopped(mine.stops, call.asked, ends)
    local calm = in_calm(call, ends, limits.calms or {})
    local text = ("%s of %s by %s at %.3f"):format(call.what, call.key, call.by,
      call.asked)
    if awake > call.bound + limits.slack then
      add(found.late, "%s took %.1f s, bound %.1f s", text, awake, call.bound)
    elseif calm > limits.calm then
      add(found.stuck, "%s waited %.1f s with nothing broken", text, calm)
    elseif not ALLOWED[call.code] then
      add(found.strange, "%s: %s %s", text, call.code, call.words)
    end
    if call.what == "acquire" then
      found.codes[call.code] = (found.codes[call.code] or 0) + 1
      found.longest = math.max(found.longest, calm)
    end
  end
  return found
end

--- Replays what was written to the register of a key, in the order in which it
--- was written there: a list of { key, start, fence }. A write is stale when a
--- hold that was believed later has written before it. Without a check of the
--- fence it is taken all the same; with one it is refused. The refusals of
--- writes that were not stale are counted as wrong.
function checker.register(writes)
  local found = { writes = #writes, unfenced_stale = 0, fenced_stale = 0,
    refused = 0, wrongly = 0 }
  local keys = {}
  for _, w in ipairs(writes) do
    local k = keys[w.key] or { start = 0, fence = 0 }
    keys[w.key] = k
    local stale, taken = w.start < k.start, w.fence >= k.fence
    found.unfenced_stale = found.unfenced_stale + (stale and 1 or 0)
    found.refused = found.refused + (taken and 0 or 1)
    found.fenced_stale = found.fenced_stale + (stale and taken and 1 or 0)
    found.wrongly = found.wrongly + (not stale and not taken and 1 or 0)
    k.start = math.max(k.start, w.start)
    k.fence = math.max(k.fence, w.fence)
  end
  return found
end

return checker
