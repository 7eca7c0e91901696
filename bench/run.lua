-- The part of bench/run that is not shell. Rounds of the floor and of each Lua
-- are interleaved, so that what disturbs the machine disturbs all of them; the
-- best and the median of the rounds are printed with their ratios to the
-- floor's, and the median of the ratios within each round.
-- usage: bench/run [redis] [zookeeper] [file]      (default: all)

local process = require "spec.support.process"
local redis = require "spec.support.redis"
local server = require "spec.support.server"

local BUILD = os.getenv("BENCH_BUILD")
local ROUNDS = tonumber(os.getenv("ROUNDS") or 15)
local SECONDS = tonumber(os.getenv("SECONDS_EACH") or 0.5)
local RENEW_SECONDS = tonumber(os.getenv("RENEW_SECONDS") or 21)
local LUAS = { "lua5.4", "luajit" }

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

-- A command line that runs a Lua with its own build of dlock.
local function lua_command(lua, ...)
  local words = { "bash", "-c",
    'eval "$(.ci/env "$(realpath -m "$1/$2")")"; lua=$2; shift 2;'
      .. 'exec "$lua" "$@"', "bash", BUILD, lua }
  for i = 1, select("#", ...) do
    words[#words + 1] = tostring((select(i, ...)))
  end
  return words
end

local function output(command)
  local status, out, err = process.run { command = command, timeout = 300 }
  assert(status == 0, err)
  return assert(tonumber(out:match("[%d.]+")), out)
end

local function median(list)
  table.sort(list)
  return list[math.floor(#list / 2) + 1]
end

local function say(...)
  print((...):format(select(2, ...)))
  io.stdout:flush()
end

-- contenders: { {name, command} }; the first is the floor.
local function rounds(title, contenders)
  local results = {}
  for i = 1, #contenders do results[i] = {} end
  for _ = 1, ROUNDS do
    for i, c in ipairs(contenders) do
      results[i][#results[i] + 1] = output(c[2])
    end
  end
  say("%s, pairs a second, %d rounds:", title, ROUNDS)
  local ratios = {}
  for i = 1, #contenders do
    ratios[i] = {}
    for r = 1, ROUNDS do ratios[i][r] = results[i][r] / results[1][r] end
  end
  local floor_median, floor_best
  for i, c in ipairs(contenders) do
    local mid = median(results[i])
    local best = results[i][#results[i]]
    floor_median, floor_best = floor_median or mid, floor_best or best
    say("  %-16s best %7.0f (%.2f of the floor)  median %7.0f (%.2f)"
      .. "  round by round %.2f", c[1], best, best / floor_best, mid,
      mid / floor_median, median(ratios[i]))
  end
end

-- Commands that the server has counted since `before`, for each of `per`.
local function requests(admin, before, per)
  local list, total = {}, 0
  for name, calls in pairs(admin:command_counts()) do
    local more = calls - (before[name] or 0)
    if more >= per / 20 and name ~= "info" then
      list[#list + 1] = ("%s %.2f"):format(name, more / per)
    end
    -- What arrives in a write of its own: scripts, and one MULTI for each try.
    if name == "multi" or name == "evalsha" or name == "eval" then
      total = total + more
    end
  end
  table.sort(list)
  return total / per, table.concat(list, ", ")
end

local function one_pair(url, admin)
  local before = admin:command_counts()
  local pairs_done = output(lua_command("lua5.4", "bench/redis.lua", "pairs",
    url, 1))
  -- The rate is for about a second; fences count the pairs exactly.
  local total, list = requests(admin, before, pairs_done)
  say("  round trips a pair: %.1f (by the server, a pair: %s)", total, list)
end

-- The lock is held until all are in the queue. A hand-off is from the return of
-- a release to the return of the next acquire (which can come first: below
-- zero), or whole, from the call of that release.
local function hand_off(url, admin, workers, each, turns)
  local list, key = {}, "handoff" .. workers .. "-" .. each
  admin:call("SET", "dlock:" .. key, "bench")
  for i = 1, workers do
    list[i] = process.spawn { command = lua_command("lua5.4",
      "bench/redis.lua", "worker", url, key, turns, each) }
  end
  for i = 1, workers do list[i]:expect("^ready$", 60) end
  local before = admin:command_counts()
  admin:call("DEL", "dlock:" .. key)
  local events = {}
  for i = 1, workers do
    while true do
      local line = assert(list[i]:read_line(120))
      local came, went = line:match("^(%d+) (%d+)$")
      if not came then break end
      events[#events + 1] = { came = tonumber(came), went = tonumber(went) }
    end
  end
  local total = requests(admin, before, workers * turns)
  for i = 1, workers do list[i]:wait() end
  table.sort(events, function(a, b) return a.came < b.came end)
  local gaps, whole = {}, {}
  for i = 2, #events do
    gaps[i - 1] = (events[i].came - events[i - 1].went) / 1e6
    whole[i - 1] = (events[i].came - events[i - 1].came) / 1e6
  end
  return median(gaps), median(whole), total
end

local function memory(title, url)
  if RENEW_SECONDS == 0 then return end
  for _, lua in ipairs(LUAS) do
    say("%s, memory of one of 10,000 leases, %s: %.0f bytes", title, lua,
      output(lua_command(lua, "bench/memory.lua", url, 10000)))
  end
end

local function round_trip(admin)
  local uv, times = require "luv", {}
  for i = 1, 2001 do
    local start = uv.hrtime()
    admin:call("PING")
    times[i] = (uv.hrtime() - start) / 1e6
  end
  return median(times)
end

local function bench_redis()
  local private = redis.start()
  local admin = private:connect()
  local contenders = { { "floor (C)", { BUILD .. "/bench/floor_redis",
    tostring(private.port), tostring(SECONDS) } } }
  contenders[2] = { "with a fence (C)", { BUILD .. "/bench/floor_redis",
    tostring(private.port), tostring(SECONDS), "fence" } }
  for _, lua in ipairs(LUAS) do
    contenders[#contenders + 1] = { "dlock " .. lua,
      lua_command(lua, "bench/redis.lua", "pairs", private.url, SECONDS) }
  end
  rounds("Redis, uncontended", contenders)
  one_pair(private.url, admin)
  local trip = round_trip(admin)
  say("Redis, one key, hand-off (round trip here: %.3f ms):", trip)
  for _, crowd in ipairs { { 2, 1 }, { 8, 1 }, { 64, 1 }, { 8, 125 } } do
    local workers, each = crowd[1], crowd[2]
    local gap, whole, total = hand_off(private.url, admin, workers, each,
      math.ceil(4000 / workers))
    say("  %4d waiters in %2d processes: median %.3f ms (%.1f round trips), "
      .. "whole %.3f ms, %.2f requests a hand-off", workers * each, workers,
      gap, gap / trip, whole, total)
  end
  memory("Redis", private.url)
  if RENEW_SECONDS > 0 then
    local share = output(lua_command("lua5.4", "bench/redis.lua", "renew",
      private.url, 1000, RENEW_SECONDS))
    say("Redis, renewal of 1,000 leases at ttl 30: %.2f %% of one core",
      share * 100)
  end
  admin:close()
  private:stop()
end

local function bench_zookeeper()
  if not exists("bench/zookeeper.lua") then return end
  local zk = require "spec.support.zk"
  local private = zk.start()
  local address = private.url:match("//([^/]+)")
  local pairs_each = math.max(100, math.floor(800 * SECONDS))
  local contenders = { { "floor (C)", { BUILD .. "/bench/floor_zookeeper",
    address, tostring(pairs_each) } } }
  for _, lua in ipairs(LUAS) do
    contenders[#contenders + 1] = { "dlock " .. lua,
      lua_command(lua, "bench/zookeeper.lua", address, pairs_each) }
  end
  rounds("ZooKeeper, uncontended", contenders)
  local function zxids()
    return tonumber(zk.four("srvr", private.url):match("Zxid: (0x%x+)"))
  end
  local before = zxids()
  output(lua_command("lua5.4", "bench/zookeeper.lua", address, 1000))
  say("  write round trips a pair: %.2f", (zxids() - before) / 1100)
  memory("ZooKeeper", private.url)
  private:stop()
end

local function bench_file()
  local dir = server.new_dir()
  memory("File", "file://" .. dir)
  server.remove_dir(dir)
end

local wanted = { redis = #arg == 0, zookeeper = #arg == 0, file = #arg == 0 }
for _, name in ipairs(arg) do wanted[name] = true end
server.remove_dir(server.new_dir()) -- fails early where /tmp is not writable
if wanted.redis then bench_redis() end
if wanted.zookeeper then bench_zookeeper() end
if wanted.file then bench_file() end
