-- dlock in nginx against what people write by hand there: lua-nginx-redis with
-- SET NX PX, an EVAL that compares and deletes, a keepalive pool, and, when the
-- lock is taken, a retry every 10 ms. Rounds are interleaved; medians are
-- printed. Instructions and system calls of the worker are counted for each
-- request. And what dlock does to its worker: what 500 waiting handlers cost a
-- location that does nothing, and what calls cost the thread (bench/calls.lua),
-- also while its connections with TLS are closed again and again.
-- usage: bench/openresty [counts]   (counts: nothing but these)
-- ROUNDS: 5, SECONDS_EACH: 2; see bench/settings.lua

local certificates = require "spec.support.certificates"
local counted = require "bench.counted"
local median = require("bench.figures").median
local nginx = require "spec.support.nginx"
local process = require "spec.support.process"
local redis = require "spec.support.redis"
local settings = require "bench.settings"
local uv = require "luv"

local ROUNDS = settings.number("ROUNDS", 5, 1)
local SECONDS = math.ceil(settings.number("SECONDS_EACH", 2, 1)) -- wrk's
local WAITERS = 500

local HTTP = [[
  init_by_lua_block {
    store = assert(require("dlock").open{
      url = os.getenv("DLOCK_TEST_REDIS"), prefix = "bench:" })
    redis = require "nginx.redis"
    port = tonumber(os.getenv("DLOCK_TEST_REDIS"):match(":(%d+)$"))
    state = { n = 0 }
    RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then"
      .. " return redis.call('del', KEYS[1]) end return 0"
    function by_hand(key)
      local r = redis:new()
      r:set_timeout(2000)
      assert(r:connect("127.0.0.1", port))
      local token = ngx.worker.pid() .. ":" .. state.n
      while r:set(key, token, "NX", "PX", 30000) ~= "OK" do
        ngx.sleep(0.01)
      end
      assert(r:eval(RELEASE, 1, key, token))
      r:set_keepalive(10000, 100)
    end
    function by_dlock(key)
      local lease = assert(store:lock(key, { timeout = 60 }))
      assert(lease:release())
    end
    function by_mutex(mutex)
      local lease = assert(mutex:acquire())
      assert(lease:release())
    end
    one = store:mutex("dlock_one", { timeout = 60 })
    unfair_one = store:mutex("unfair_one", { timeout = 60, fair = false })
    far_one = store:mutex("far_one",
      { timeout = 60, fair = false, local_handoffs = 256 })
  }
]]

local SERVER = [[
  location = /nothing { content_by_lua_block { ngx.print("x") } }
  location = /hand { content_by_lua_block {
    state.n = state.n + 1 by_hand("hand:" .. state.n % 1000) } }
  location = /dlock { content_by_lua_block {
    state.n = state.n + 1 by_dlock("dlock:" .. state.n % 1000) } }
  location = /hand_one { content_by_lua_block {
    state.n = state.n + 1 by_hand("hand_one") } }
  location = /dlock_one { content_by_lua_block { by_mutex(one) } }
  location = /unfair_one { content_by_lua_block { by_mutex(unfair_one) } }
  location = /far_one { content_by_lua_block { by_mutex(far_one) } }
  location = /wait { lua_check_client_abort on; content_by_lua_block {
    local lease = store:lock("one", { timeout = 600 })
    if lease then ngx.sleep(600) end } }
  location = /connections { stub_status; }
]]

-- Also how many requests there were in all.
local function rate(n, path)
  local found, out = n:wrk(path, { seconds = SECONDS })
  assert(not out:find("Non-2xx", 1, true), out .. n:log())
  return found, tonumber(out:match("(%d+) requests in"))
end

-- Of all threads of the only worker, meanwhile.
local function each_request(n, path, tool)
  local counters, total = counted.by(tool, function(words)
    words[#words + 1] = "-p"
    words[#words + 1] = tostring(n:workers()[1])
    local watcher = process.spawn { command = words, stderr = "pipe" }
    uv.sleep(500) -- it watches by then
    local _, requests = rate(n, path)
    watcher:kill("sigint")
    assert(watcher:wait())
    return requests
  end)
  for name, count in pairs(counters) do counters[name] = count / total end
  return counters
end

local COUNTED = {
  { name = "nothing", path = "/nothing" },
  { name = "by hand, 1000", path = "/hand" },
  { name = "dlock, 1000", path = "/dlock" },
  { name = "by hand, one key", path = "/hand_one" },
  { name = "dlock, one key", path = "/dlock_one" },
}

local function count(n)
  print("nginx with 1 worker, 64 connections:")
  for _, one in ipairs(COUNTED) do rate(n, one.path) end -- compiled by then
  counted.each(COUNTED, "request", function(one, tool)
    return each_request(n, one.path, tool)
  end)
end

-- ours: { what it is called, its path } each
local function compare(n, title, theirs, ours)
  local by_hand, found = {}, {}
  for _ = 1, ROUNDS do
    by_hand[#by_hand + 1] = rate(n, theirs)
    for i, one in ipairs(ours) do
      found[i] = found[i] or {}
      table.insert(found[i], (rate(n, one[2])))
    end
  end
  local y = median(by_hand)
  print(("%s: by hand %.0f pairs/s"):format(title, y))
  for i, one in ipairs(ours) do
    local x = median(found[i])
    print(("    %s %.0f, ratio %.2f"):format(one[1], x, x / y))
  end
end

local function p99(n)
  local _, out = n:wrk("/nothing", { seconds = SECONDS, connections = 8 })
  local value, unit = out:match("99%%%s+([%d.]+)(%a+)")
  return tonumber(value) * ({ us = 1e-6, ms = 1e-3, s = 1 })[unit]
end

-- Until at least, or at most, so many connections are open (ours is one).
local function connections(n, fits)
  repeat
    local _, text = n:get("/connections")
  until fits(tonumber(text:match("connections: (%d+)")) - 1)
end

local function with_waiters(n, fn)
  local waiting = {}
  for i = 1, WAITERS do waiting[i] = n:begin("/wait") end
  connections(n, function(open) return open >= WAITERS end)
  local result = fn(n)
  for i = 1, WAITERS do waiting[i]:abort() end
  connections(n, function(open) return open < 10 end)
  return result
end

local function compare_p99(n)
  local quiet, busy, ratios = {}, {}, {}
  for i = 1, ROUNDS do
    local first = i % 2 == 0 and with_waiters(n, p99)
    quiet[i] = p99(n)
    busy[i] = first or with_waiters(n, p99)
    ratios[i] = busy[i] / quiet[i]
  end
  print(("  p99 of a location that does nothing: %.2f ms, with %d waiting"
    .. " handlers %.2f ms (medians); ratio median %.2f, best %.2f")
    :format(median(quiet) * 1e3, WAITERS, median(busy) * 1e3, median(ratios),
      ratios[1]))
end

local function run(n, workers)
  print(("nginx with %d worker%s, %d rounds of %g s:"):format(workers,
    workers == 1 and "" or "s", ROUNDS, SECONDS))
  compare(n, "  1000 keys, 64 connections", "/hand", { { "dlock", "/dlock" } })
  compare(n, "  one key, 64 connections", "/hand_one",
    { { "dlock", "/dlock_one" }, { "dlock, fair = false", "/unfair_one" },
      { "dlock, fair = false, local_handoffs = 256", "/far_one" } })
  compare_p99(n)
end

-- In an nginx of its own: measuring takes longer than most of the calls.
local function measure_calls(n)
  rate(n, "/dlock")
  rate(n, "/dlock_one")
  print("what calls cost the worker's thread: "
    .. select(2, n:get("/calls")))
end

local function in_nginx(opts, fn, ...)
  local n = nginx.start(opts)
  local ok, problem = pcall(fn, n, ...)
  for _, line in ipairs(n:complaints()) do print(line) end
  n:stop()
  return ok or error(problem, 0)
end

local MEASURED = [[
  init_by_lua_block {
    calls = require "bench.calls"
    calls.begin()
    store = assert(require("dlock").open{
      url = os.getenv("DLOCK_TEST_REDIS"), prefix = "bench:" })
    n = 0
    function pair(key)
      local lease = assert(store:lock(key, { timeout = 60 }))
      calls.nothing()
      assert(lease:release())
    end
  }
]]

local MEASURED_SERVER = [[
  location = /dlock { content_by_lua_block { n = n + 1 pair("k" .. n % 1000) } }
  location = /dlock_one { content_by_lua_block { pair("one") } }
  location = /calls { content_by_lua_block { ngx.print(calls.report()) } }
]]

-- A hundred times a second, and a handshake follows each time.
local KILL = [[
  local redis = require "spec.support.redis"
  local uv = require "luv"
  local admin = assert(redis.connect(arg[1]))
  print "ready"
  io.stdout:flush()
  while true do
    admin:call("CLIENT", "KILL", "LADDR", arg[2])
    uv.sleep(10)
  end ]]

local function measure_tls()
  local made = certificates.make()
  local secure = redis.start(made:server "server")
  uv.os_setenv("DLOCK_TEST_REDISS", secure.tls_url)
  uv.os_setenv("SSL_CERT_FILE", made:path "ca.crt")
  local admin = secure:connect()
  local killer = process.spawn { script = KILL, tested = false,
    args = { secure.url, "127.0.0.1:" .. secure.tls_port } }
  killer:expect "^ready$"
  local function made_so_far()
    return tonumber(admin:call("INFO", "stats")
      :match "total_connections_received:(%d+)")
  end
  local before = made_so_far()
  io.write("with TLS, ")
  in_nginx({ http = MEASURED:gsub("DLOCK_TEST_REDIS", "DLOCK_TEST_REDISS"),
    server = MEASURED_SERVER }, measure_calls)
  print(("  meanwhile %d handshakes of TLS"):format(made_so_far() - before))
  killer:close()
  admin:close()
  secure:stop()
  made:remove()
end

print(("load of the machine when this began: %.1f"):format((uv.loadavg())))
local server = redis.start()
uv.os_setenv("DLOCK_TEST_REDIS", server.url)
local ok, problem = pcall(function()
  in_nginx({ http = HTTP, server = SERVER }, count)
  if arg[1] == "counts" then return end
  for _, workers in ipairs { 1, 2 } do
    in_nginx({ workers = workers, http = HTTP, server = SERVER }, run, workers)
  end
  in_nginx({ http = MEASURED, server = MEASURED_SERVER }, measure_calls)
  measure_tls()
end)
server:stop()
if not ok then
  error(problem, 0)
end
