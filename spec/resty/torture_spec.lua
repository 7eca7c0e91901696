-- Requests that end in every way at once, in an nginx that is reloaded again
-- and again, with collectors that never rest: nobody is inside together, fences
-- rise, and when all is quiet nothing is held, waited for, or left running.
-- Runs on LuaJIT only: that is the Lua which nginx has.
if not rawget(_G, "jit") then
  return
end

local nginx = require "spec.support.nginx"
local redis = require "spec.support.redis"
local uv = require "luv"

local RUN = ("torture%d:"):format(uv.os_getpid())
-- A minute shows more than CI has time for.
local SECONDS = tonumber(os.getenv("DLOCK_TORTURE_SECONDS") or 2)

local HTTP = [[
  lua_shared_dict seen 1m;
  lua_socket_log_errors off;
  init_by_lua_block {
    local dlock = require "dlock"
    local url = os.getenv("DLOCK_TEST_REDIS")
    store = assert(dlock.open{ url = url, prefix = "]] .. RUN .. [[",
      ttl = 10 })
    worker_store = assert(dlock.open{ url = url, prefix = "]] .. RUN .. [[",
      ttl = 10, scope = "worker" })
    function short() ngx.sleep(math.random(10) / 1000) end
    -- What is done under a lock: counts who is inside. It is left in one go,
    -- or by whatever ends the request, and then noted by nobody; so who comes
    -- next looks at the number of the one before.
    function inside(key, lease)
      local seen = ngx.shared.seen
      if lease.fence < (seen:get("fence:" .. key) or 0) then
        seen:incr("fences", 1, 0)
      end
      seen:set("fence:" .. key, lease.fence)
      if not lease:held() then return end
      if seen:incr("inside:" .. key, 1, 0) ~= 1 then
        seen:incr("together", 1, 0)
      end
      for _ = 1, math.random(2000) do local _ = {} end
      seen:incr("inside:" .. key, -1)
      seen:incr("entered", 1, 0)
    end
    function enter(from, opts)
      local key = "k" .. math.random(4)
      local lease, message, code = from:lock(key, opts or { timeout = 0.3 })
      if lease then
        inside(key, lease)
      elseif code ~= "timeout" then -- requests that hold one wait for another
        -- A server that stands still for all of the time has no answer.
        local waited = tonumber(message:match("within ([%d.]+) s"))
        if not waited or waited < 0.3 then ngx.log(ngx.ERR, message) end
      end
      return lease
    end
    local WAYS = {}
    function WAYS.release()
      local lease = enter(store)
      if lease then lease:release() end
    end
    function WAYS.keep() enter(store) short() end
    function WAYS.exit() enter(store) ngx.exit(204) end
    function WAYS.exec() enter(store) ngx.exec("/inner") end
    function WAYS.capture() ngx.location.capture("/inner") short() end
    function WAYS.redirect() enter(store) ngx.redirect("/inner") end
    function WAYS.mutex()
      local mutex = store:mutex("k1", { reentrant = true })
      local lease = mutex:acquire { timeout = 0.3 }
      if not lease then return end
      inside("k1", lease)
      collectgarbage("step")
      assert(mutex:try_acquire()):release()
      inside("k1", lease)
    end
    function WAYS.unfair()
      local lease = enter(store, { timeout = 0.3, fair = false })
      if lease then lease:release() end
    end
    function WAYS.worker()
      local lease = enter(worker_store)
      if lease then lease:release_later() end
    end
    function WAYS.timer()
      ngx.timer.at(0, function() enter(store) end)
    end
    function WAYS.threads()
      local threads = {}
      for i = 1, 4 do
        threads[i] = ngx.thread.spawn(function()
          short()
          local lease = enter(math.random(2) == 1 and store or worker_store)
          short()
          if lease then lease:release() end
        end)
      end
      short()
      ngx.thread.kill(threads[1])
      short()
      ngx.thread.kill(threads[2])
      if math.random(2) == 1 then
        ngx.thread.wait(threads[3])
      else
        ngx.exit(200)
      end
    end
    function WAYS.callbacks()
      local lease = store:lock("lost" .. math.random(1e6),
        { ttl = 0.1, renew = false })
      lease:on_lost(function() short() ngx.exit(200) end)
      lease:on_lost(function() ngx.shared.seen:incr("told", 1, 0) end)
      ngx.sleep(0.2)
    end
    function WAYS.with()
      store:with("k2", { timeout = 0.3 }, function(lease)
        inside("k2", lease)
        short()
        if math.random(2) == 1 then ngx.exit(204) end
      end)
    end
    local names = {}
    for name in pairs(WAYS) do names[#names + 1] = name end
    table.sort(names)
    function any_way()
      local name = names[math.random(#names)]
      WAYS[name]()
    end
  }
  init_worker_by_lua_block {
    math.randomseed(ngx.worker.pid() + ngx.now() * 1000)
    collectgarbage("setpause", 1)
    collectgarbage("setstepmul", 1000)
  }
]]

local SERVER = [[
  location = /any {
    lua_check_client_abort on;
    access_by_lua_block { if math.random(2) == 1 then any_way() end }
    content_by_lua_block { any_way() ngx.print("x") }
    log_by_lua_block {
      store:mutex("k3", { reentrant = true }):try_acquire()
    }
  }
  location = /inner { content_by_lua_block { enter(store) ngx.print("i") } }
  location = /seen { content_by_lua_block {
    local seen = ngx.shared.seen
    for _, name in ipairs { "together", "fences", "entered" } do
      ngx.print(name, "=", seen:get(name) or 0, " ")
    end
    ngx.print("timers=", ngx.timer.running_count())
  } }
]]

describe("nginx that never rests", function()
  it("keeps all promises", function()
    local n = nginx.start { workers = 2, http = HTTP, server = SERVER }
    local r = assert(redis.connect())
    local ended = uv.hrtime() + SECONDS * 1e9
    local latest = ended + 60e9
    local function seen() return select(2, n:get("/seen")) or "" end
    local function enough() return seen():find("entered=%d%d%d") end
    local under_way, served, reloaded = {}, 0, uv.hrtime()
    while uv.hrtime() < ended do
      for i = 1, 60 do
        local one = under_way[i]
        if not one or one.ended then
          if one then one:finish() end
          under_way[i] = n:begin("/any")
          served = served + 1
        elseif math.random(40) == 1 then
          one:abort()
          under_way[i] = nil
        end
      end
      if uv.hrtime() - reloaded > 3e8 then
        n.server:signal("sighup")
        reloaded = uv.hrtime()
      end
      uv.run("once")
      local now = uv.hrtime()
      if now > ended and now < latest and not enough() then
        ended = uv.hrtime() + 3e8
      end
    end
    for _, one in pairs(under_way) do one:finish() end
    assert.is_true(served > 100)
    -- Those who are gone for good come first; then the callbacks' timers.
    local last
    assert(nginx.wait_for(30, function()
      last = seen()
      local left = {}
      for _, name in ipairs(r:call("KEYS", RUN .. "*")) do
        if not name:find(":f:", 1, true) then left[#left + 1] = name end
      end
      last = last .. " " .. table.concat(left, " ")
      return #left == 0 and #n:workers() == 2 and last:find("timers=0")
    end), last .. "\n" .. n:log():sub(-3000))
    assert.matches("together=0 fences=0 entered=%d%d%d", last)
    -- A light thread that is killed leaves its lease of the worker to the
    -- collector, which tells of it. A worker whose timer of 0 s begins while it
    -- exits leaves the connection by which the Lua module (0.10.23) would have
    -- aborted timers: it has no socket, and the number -2.
    local complaints = {}
    for _, line in ipairs(n:complaints()) do
      if not line:find("dlock: dropped: the lease on", 1, true)
        and not line:find("open socket #-2 left", 1, true) then
        complaints[#complaints + 1] = line
      end
    end
    n:stop()
    r:close()
    assert.same({}, complaints)
  end)
end)
