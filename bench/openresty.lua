-- dlock in nginx against what people write by hand there: lua-nginx-redis with
-- SET NX PX, an EVAL that compares and deletes, a keepalive pool, and, when the
-- lock is taken, a retry every 10 ms. Rounds are interleaved; medians are
-- printed. And what 500 waiting handlers do to a location that does nothing.
-- usage: bench/openresty (ROUNDS: 5, SECONDS_EACH: 2)

local nginx = require "spec.support.nginx"
local redis = require "spec.support.redis"
local uv = require "luv"

local ROUNDS = tonumber(os.getenv("ROUNDS") or 5)
local SECONDS = tonumber(os.getenv("SECONDS_EACH") or 2)

local HTTP = [[
  init_by_lua_block {
    store = assert(require("dlock").open{
      url = os.getenv("DLOCK_TEST_REDIS"), prefix = "bench:" })
    redis = require "nginx.redis"
    port = tonumber(os.getenv("DLOCK_TEST_REDIS"):match(":(%d+)$"))
    state = { n = 0, worst = 0 }
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
  location = /dlock_one { content_by_lua_block { by_dlock("dlock_one") } }
  location = /later { content_by_lua_block {
    local core = require "dlock.core"
    local lease = assert(store:lock("later:" .. ngx.var.connection))
    local before = core.now()
    lease:release_later()
    state.worst = math.max(state.worst, core.now() - before) } }
  location = /worst { content_by_lua_block { ngx.print(state.worst) } }
  location = /wait { lua_check_client_abort on; content_by_lua_block {
    local lease = store:lock("one", { timeout = 600 })
    if lease then ngx.sleep(600) end } }
]]

local function median(list)
  table.sort(list)
  return list[math.floor(#list / 2) + 1]
end

local function rate(n, path)
  local found, out = n:wrk(path, { seconds = SECONDS })
  assert(not out:find("Non-2xx", 1, true), out .. n:log())
  return found
end

local function compare(n, title, mine, theirs)
  local a, b = {}, {}
  for _ = 1, ROUNDS do
    a[#a + 1], b[#b + 1] = rate(n, mine), rate(n, theirs)
  end
  local x, y = median(a), median(b)
  print(("%s: dlock %.0f pairs/s, by hand %.0f, ratio %.2f")
    :format(title, x, y, x / y))
end

local function p99(n)
  local list = {}
  for _ = 1, ROUNDS do
    local _, out = n:wrk("/nothing", { seconds = SECONDS, connections = 8 })
    local value, unit = out:match("99%%%s+([%d.]+)(%a+)")
    list[#list + 1] = tonumber(value)
      * ({ us = 1e-6, ms = 1e-3, s = 1 })[unit]
  end
  return median(list)
end

local function run(n, workers)
  print(("nginx with %d worker%s, %d rounds of %g s:"):format(workers,
    workers == 1 and "" or "s", ROUNDS, SECONDS))
  compare(n, "  1000 keys, 64 connections", "/dlock", "/hand")
  compare(n, "  one key, 64 connections", "/dlock_one", "/hand_one")
  rate(n, "/later")
  print(("  a call that does not wait took %.0f us at worst")
    :format(tonumber((select(2, n:get("/worst")))) * 1e6))
  local quiet, waiting = p99(n), {}
  for i = 1, 500 do waiting[i] = n:begin("/wait") end
  local busy = p99(n)
  print(("  p99 of a location that does nothing: %.2f ms, with 500 waiting"
    .. " handlers %.2f ms"):format(quiet * 1e3, busy * 1e3))
  for i = 1, 500 do waiting[i]:abort() end
end

local server = redis.start()
uv.os_setenv("DLOCK_TEST_REDIS", server.url)
for _, workers in ipairs { 1, 2 } do
  local n = nginx.start { workers = workers, http = HTTP, server = SERVER }
  local ok, problem = pcall(run, n, workers)
  for _, line in ipairs(n:complaints()) do print(line) end
  n:stop()
  if not ok then
    server:stop()
    error(problem, 0)
  end
end
server:stop()
