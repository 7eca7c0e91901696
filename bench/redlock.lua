-- Redlock on five servers: pairs of one process on one key, while all servers
-- are fast and while one of them answers 200 ms late. Where BENCH_MODULES (of
-- bench/modules) has it, beside the npm library redlock.
-- usage of a worker: LUA bench/redlock.lua URL SECONDS

local function work(url, seconds)
  local dlock, core = require "dlock", require "dlock.core"
  local store = assert(dlock.open { url = url, ttl = 1, max_ttl = 1 })
  local times, count = {}, 0
  local function pair()
    assert(assert(store:lock("bench:redlock")):release())
  end
  for _ = 1, 100 do pair() end
  local start, used = core.now(), os.clock()
  repeat
    local before = core.now()
    pair()
    count = count + 1
    times[count] = core.now() - before
  until core.now() - start > tonumber(seconds)
  table.sort(times)
  print(count / (core.now() - start), times[math.ceil(count * 0.5)] * 1e6,
    times[math.ceil(count * 0.99)] * 1e6, (os.clock() - used) / count * 1e6)
  store:close()
end

if ... ~= "bench.redlock" then return work(...) end

local figures = require "bench.figures"
local programs = require "bench.programs"
local proxy = require "spec.support.proxy"
local servers = require "spec.support.redlock"
local settings = require "bench.settings"
local uv = require "luv"

local redlock = {}

local LATE = 0.2

local FIGURES = {
  { "rate", "pairs a second", most = true },
  { "p50", "p50 of a pair, us" },
  { "p99", "p99 of a pair, us" },
  { "cpu", "client CPU a pair, us" },
}

local function compare(url, late)
  for _, lua in ipairs(settings.luas) do
    local ours = programs.lua(lua, "bench/redlock.lua", url, settings.seconds)
    local list = { { name = lua, seconds = 0, program = ours },
      { name = lua .. ", one late", seconds = LATE, program = ours } }
    if os.getenv("BENCH_MODULES") then
      list[3] = { name = "node redlock", seconds = 0, program = { command = {
        "node", "bench/redlock_node.mjs", url, tostring(settings.seconds) } } }
    end
    figures.rounds("Redlock, 5 servers, one process", FIGURES, list,
      function(contender)
        late:delay("down", contender.seconds)
        local rate, p50, p99, cpu = programs.output(contender.program)
          :match("(%S+)%s+(%S+)%s+(%S+)%s+(%S+)")
        return { rate = tonumber(rate), p50 = tonumber(p50),
          p99 = tonumber(p99), cpu = tonumber(cpu) }
      end)
  end
end

--- The servers keep nothing on disk, and vote when they are max_ttl + 2 s old.
function redlock.compare()
  local set = servers.start { config = {} }
  local late = proxy.start(set.nodes[5].url)
  uv.sleep(4000)
  local ok, problem = pcall(compare, (set.url:gsub("[^,]*$", late.address)),
    late)
  late:stop()
  set:stop()
  return ok or error(problem, 0)
end

return redlock
