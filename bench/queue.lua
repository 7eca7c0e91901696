-- Many waiters on one key of Redis: how long it takes until the next one has
-- the lock when they are all in the queue already.

local costs = require "bench.costs"
local figures = require "bench.figures"
local process = require "spec.support.process"
local programs = require "bench.programs"
local settings = require "bench.settings"
local uv = require "luv"

local queue = {}

-- Processes, and waiters in each.
local CROWDS = settings.quick and { { 2, 10 } } or { { 8, 125 } }
local TURNS = settings.quick and 400 or 4000

-- Reads the turns that a worker says it had.
local function read_turns(worker, events)
  while true do
    local line = assert(worker:read_line(120))
    local came, went = line:match("^(%d+) (%d+)$")
    if not came then return end
    events[#events + 1] = { came = tonumber(came), went = tonumber(went) }
  end
end

-- The lock is held until all are in the queue. A hand-off is from the return of
-- a release to the return of the next acquire (which can come first: below
-- zero), or whole, from the call of that release.
local function hand_off(url, admin, workers, each, turns)
  local list, key = {}, "handoff" .. workers .. "-" .. each
  local counters = costs.redis(admin)
  admin:call("SET", "dlock:" .. key, "bench")
  for i = 1, workers do
    local program = programs.lua("lua5.4", "bench/redis.lua", "worker", url,
      key, turns, each)
    list[i] = process.spawn { command = program.command, env = program.env }
  end
  for i = 1, workers do list[i]:expect("^ready$", 60) end
  local before = counters()
  admin:call("DEL", "dlock:" .. key)
  local events = {}
  for i = 1, workers do read_turns(list[i], events) end
  local rose = costs.rose(counters, before)
  for i = 1, workers do list[i]:wait() end
  table.sort(events, function(a, b) return a.came < b.came end)
  local gaps, whole = {}, {}
  for i = 2, #events do
    gaps[i - 1] = (events[i].came - events[i - 1].went) / 1e6
    whole[i - 1] = (events[i].came - events[i - 1].came) / 1e6
  end
  return figures.median(gaps), figures.median(whole),
    costs.of_redis("dlock")(rose, workers * turns)
end

local function round_trip(admin)
  local times = {}
  for i = 1, 2001 do
    local start = uv.hrtime()
    admin:call("PING")
    times[i] = (uv.hrtime() - start) / 1e6
  end
  return figures.median(times)
end

--- private: a server (spec/support/redis.lua); admin: a connection to it.
function queue.redis(private, admin)
  local trip = round_trip(admin)
  figures.say("Redis, one key, all in the queue (round trip here: %.3f ms):",
    trip)
  for _, crowd in ipairs(CROWDS) do
    local workers, each = crowd[1], crowd[2]
    local gap, whole, found = hand_off(private.url, admin, workers, each,
      math.ceil(TURNS / workers))
    figures.say("  %4d waiters in %2d processes: median %.3f ms (%.1f round"
      .. " trips), whole %.3f ms; %.2f requests a hand-off, %.1f us of the"
      .. " server's commands", workers * each, workers, gap, gap / trip, whole,
      found.requests, found.commands_us)
  end
end

return queue
