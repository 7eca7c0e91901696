-- What a worker of the torture writes down, so that it can be killed at any
-- moment and the checker still knows what it believed. A record is a line of
-- fixed width, written by one write; two fields of it are written again in
-- place: the time (and, of a hold, it is the last one at which held() was true)
-- and the word for how it ended. Times are core.now(), CLOCK_BOOTTIME of this
-- machine, so those of several processes can be compared.
--
--   hold: key, mode (x exclusive, s shared, p permits), units, cap, fence,
--         asked (before the request), start (after acquire returned), last
--         (held() was true after this moment), how
--   call: key, what, bound (how long it may take), asked, returned, code
--
-- A hold is "carried" when it goes on from an earlier record with its fence:
-- after a downgrade, or attached.

local records = {}
local writer = {}
writer.__index = writer

-- In front: the two fields that are written again.
local HOLD = "%017.9f %-12s %-8s %s %3d %3d %015.0f %017.9f %017.9f %d\n"
local CALL = "%017.9f %-12s %-8s %-12s %9.3f %017.9f %-44s\n"
local TIME_WIDTH, HOW_WIDTH = 17, 12

local function new_writer(path, format)
  local file = assert(io.open(path, "w+b"))
  file:setvbuf("no") -- one write is one system call
  return setmetatable({ file = file, format = format, used = 0 }, writer)
end

local function append(self, line)
  self.width = self.width or #line
  assert(#line == self.width, "a record too wide: " .. line)
  local at = self.used
  self.file:seek("set", at)
  self.file:write(line)
  self.used = at + #line
  return at
end

--- Where a worker writes its holds and its calls, below a directory.
function records.create(dir, name)
  return {
    holds = new_writer(dir .. "/" .. name .. ".holds", HOLD),
    calls = new_writer(dir .. "/" .. name .. ".calls", CALL),
  }
end

--- Both return the place of the record, for `at` and `ended`.
function writer:hold(h)
  return append(self, HOLD:format(h.last, "-", h.key, h.mode, h.units, h.cap,
    h.fence, h.asked, h.start, h.carried and 1 or 0))
end

function writer:call(key, what, bound, asked)
  return append(self, CALL:format(0, "-", key, what, bound, asked, ""))
end

--- The time of a record is this now.
function writer:at(place, time)
  self.file:seek("set", place)
  self.file:write(("%017.9f"):format(time))
end

--- How it ended; with a time and a few words for a call.
function writer:ended(place, how, time, words)
  if time then
    self:at(place, time)
  end
  self.file:seek("set", place + TIME_WIDTH + 1)
  self.file:write(("%-12s"):format(how:sub(1, HOW_WIDTH)))
  if words then
    self.file:seek("set", place + self.width - 45)
    self.file:write(("%-44s"):format(words:gsub("%c", " "):sub(1, 44)))
  end
end

-- None when there is no file, or no line in it: its worker was killed before.
-- With a number only so many of the last lines (if there are as many).
local function each_line(path, last)
  local file = io.open(path, "rb")
  if not file then
    return function() end
  end
  local first = file:read("*l")
  if not first then
    file:close()
    return function() end
  end
  local width = #first + 1
  local count = last and math.floor(file:seek("end") / width) or 0
  file:seek("set", math.max(count - (last or 0), 0) * width)
  local text = file:read("*a")
  file:close()
  return text:gmatch("([^\n]*)\n")
end

--- The holds in a file, each with `by`, the name of who wrote it; or the last
--- ones only, so many of them, or none if there are fewer.
function records.read_holds(path, by, list, last)
  for line in each_line(path, last) do
    local time, how, key, mode, units, cap, fence, asked, start, carried =
      line:match("^(%S+) (%S+) +(%S+) +(%S) +(%d+) +(%d+) (%d+) (%S+) (%S+)"
        .. " (%d)$")
    assert(carried, "not a hold: " .. line)
    list[#list + 1] = { by = by, last = tonumber(time), how = how, key = key,
      mode = mode, units = tonumber(units), cap = tonumber(cap),
      fence = tonumber(fence), asked = tonumber(asked),
      start = tonumber(start), carried = carried == "1" }
  end
  return list
end

--- The calls in a file; one that never returned has no `returned`.
function records.read_calls(path, by, list)
  for line in each_line(path) do
    local returned, code, key, what, bound, asked, words =
      line:match("^(%S+) (%S+) +(%S+) +(%S+) +(%S+) (%S+) (.-) *$")
    assert(words, "not a call: " .. line)
    list[#list + 1] = { by = by, code = code, key = key, what = what,
      bound = tonumber(bound), asked = tonumber(asked), words = words,
      returned = tonumber(returned) > 0 and tonumber(returned) or nil }
  end
  return list
end

return records
