-- Processes that take one lock again and again while something happens to the
-- servers, and what they wrote down of it (spec/torture/records.lua).
--
--   local some = crowd.start { url = …, count = 4, session_timeout = 4 }
--   some:wait_for_holds(20); …; local found = some:finish()
--   found.holds.overlaps, found.holds.fences, found.calls, found.acquired

local checker = require "spec.torture.checker"
local core = require "dlock.core"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local records = require "spec.torture.records"
local server = require "spec.support.server"

local crowd = {}
crowd.__index = crowd

local TIMEOUT, IO_TIMEOUT = 60, 2 -- of each wait, of each release

local SCRIPT = [[
  local belief = require "spec.torture.belief"
  local core = require "dlock.core"
  local dlock = require "dlock"
  local records = require "spec.torture.records"
  local uv = require "luv"
  local dir, name, url, timeout, io_timeout, session_timeout, ttl, hold =
    arg[1], arg[2], arg[3], tonumber(arg[4]), tonumber(arg[5]),
    tonumber(arg[6]), tonumber(arg[7]), tonumber(arg[8])
  local mutex = assert(dlock.open { url = url, name = name,
    io_timeout = io_timeout, session_timeout = session_timeout,
    ttl = ttl }):mutex("lock")
  local written = records.create(dir, name)
  local context = { args = {}, now = core.now, holds = written.holds }

  local function timed(what, bound, fn, ...)
    local asked = core.now()
    local place = written.calls:call("lock", what, bound, asked)
    local value, message, code = fn(...)
    local returned = core.now()
    written.calls:ended(place, value and "ok" or code, returned, message or "")
    return value, asked, returned
  end

  repeat
    local lease, asked, returned = timed("acquire", timeout + io_timeout,
      mutex.acquire, mutex, { timeout = timeout })
    if lease then
      local h = belief.begin(context, "lock", lease, asked, returned)
      local until_ = core.now() + hold
      while h:held() and core.now() < until_ do uv.sleep(1) end
      h:over("released")
      timed("release", io_timeout, lease.release, lease)
    end
  until uv.fs_stat(dir .. "/stop")
  print("done")
]]

--- opts: url, count, session_timeout, ttl (30), hold (seconds, 0.005); only:
--- URLs, the first processes know only one of these each.
function crowd.start(opts)
  local self = setmetatable({ dir = server.new_dir(), members = {}, life = {},
    count = opts.count }, crowd)
  for i = 1, opts.count do
    local name = "p" .. i
    self.life[name] = {}
    local url = opts.only and opts.only[i] or opts.url
    self.members[name] = process.spawn { script = SCRIPT, args = { self.dir,
      name, url, TIMEOUT, IO_TIMEOUT, opts.session_timeout, opts.ttl or 30,
      opts.hold or 0.005 } }
  end
  return self
end

--- Waits until each process has had so many holds since that time.
function crowd:wait_for_holds(count, since, seconds)
  loop.eventually(count .. " holds of each process", seconds or 60, function()
    for name in pairs(self.members) do
      local first = records.read_holds(self.dir .. "/" .. name .. ".holds",
        name, {}, count)[1]
      if not first or first.start < (since or 0) then
        return false
      end
    end
    return true
  end)
end

-- How often a kind of call ended with which code.
local function codes(calls, what)
  local found = {}
  for _, call in ipairs(calls) do
    if call.what == what then
      found[call.code] = (found[call.code] or 0) + 1
    end
  end
  return found
end

--- Lets all end, and says what the checker found, how calls ended, and when
--- holds began: { holds =, calls =, acquired = { ok = n, … }, released = { … },
--- starts = { … } }.
function crowd:finish()
  server.write_file(self.dir .. "/stop", "")
  local ended = core.now() + TIMEOUT + 2 * IO_TIMEOUT
  local holds, calls, starts = {}, {}, {}
  for name, one in pairs(self.members) do
    local status = one:wait(math.max(ended - core.now(), 0.1))
    assert(status == 0, name .. " did not end well: " .. tostring(status) .. " "
      .. one.out .. (one.err or ""))
    records.read_holds(self.dir .. "/" .. name .. ".holds", name, holds)
    records.read_calls(self.dir .. "/" .. name .. ".calls", name, calls)
  end
  for i, h in ipairs(holds) do
    starts[i] = h.start
  end
  table.sort(starts)
  return { holds = checker.holds(holds), starts = starts,
    calls = checker.calls(calls, self.life, { slack = 5, calm = math.huge }),
    acquired = codes(calls, "acquire"), released = codes(calls, "release") }
end

--- Ends what is left.
function crowd:stop()
  for _, one in pairs(self.members) do
    one:close()
  end
  server.remove_dir(self.dir)
end

return crowd
