-- Many readers who wait while a writer holds: what they cost the server at
-- rest, and how long it takes to let them in.

local costs = require "bench.costs"
local figures = require "bench.figures"
local process = require "spec.support.process"
local programs = require "bench.programs"
local settings = require "bench.settings"
local uv = require "luv"

local readers = {}

-- How many, in so many processes. They ask less and less often: for so many
-- seconds until all do so as seldom as they ever will, and then looked at.
local COUNT, PROCESSES = 10000, 8
local CALM, WATCHED = 45, 40
if settings.quick then COUNT, PROCESSES, CALM, WATCHED = 400, 2, 1, 1 end

local function start(url)
  local list = {}
  for i = 1, PROCESSES do
    local program = programs.lua("lua5.4", "bench/redis.lua", "readers", url,
      "readers", COUNT / PROCESSES)
    list[i] = process.spawn { command = program.command, env = program.env }
  end
  for _, one in ipairs(list) do one:expect("^ready$", 120) end
  return list
end

local function at_rest(counters)
  local before, began = counters(), uv.hrtime()
  uv.sleep(WATCHED * 1000)
  local rose = costs.rose(counters, before)
  local found = costs.of_redis("dlock")(rose, (uv.hrtime() - began) / 1e9)
  figures.say("  at rest: %.0f requests a second, %.2f %% of a core of the"
    .. " server", found.requests,
    (found.server_user + found.server_system) / 1e4)
end

local function let_in(list, release)
  local began, last, lost = uv.hrtime(), 0, 0
  release()
  for _, one in ipairs(list) do
    local _, at, missed = one:expect("^in at (%d+), lost (%d+)$", 120)
    last, lost = math.max(last, tonumber(at)), lost + tonumber(missed)
  end
  figures.say("  let in within %.2f s; %d were lost in the second after that",
    (last - began) / 1e9, lost)
end

--- private: a server (spec/support/redis.lua); admin: a connection to it.
function readers.redis(private, admin)
  admin:call("SET", "dlock:readers", "bench")
  local list = start(private.url)
  figures.say("Redis, %d readers in %d processes wait behind a writer:", COUNT,
    PROCESSES)
  uv.sleep(CALM * 1000)
  at_rest(costs.redis(admin))
  let_in(list, function() admin:call("DEL", "dlock:readers") end)
  for _, one in ipairs(list) do one:wait() end
end

return readers
