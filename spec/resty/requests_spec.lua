-- Leases and waits belong to their request, in a real nginx: what becomes of
-- them when the client goes away, the handler exits, fails or is left for
-- another, and when the worker is killed or replaced. The collector is stopped
-- where something has to end, so that it is not the one who ends it, and works
-- hard where something has to last (resty/ends_spec has more of that). Runs on
-- LuaJIT only: that is the Lua which nginx has.
if not rawget(_G, "jit") then
  return
end

local core = require "dlock.core"
local dlock = require "dlock"
local nginx = require "spec.support.nginx"
local promptly = require "spec.support.promptly"
local redis = require "spec.support.redis"
local steady = require "spec.support.steady"
local uv = require "luv"

local RUN = ("requests%d:"):format(uv.os_getpid())
local URL = os.getenv("DLOCK_TEST_REDIS")

local HTTP = [[
  lua_shared_dict results 1m;
  init_by_lua_block {
    local dlock = require "dlock"
    local url = os.getenv("DLOCK_TEST_REDIS")
    keep = {}
    store = assert(dlock.open{ url = url, prefix = "]] .. RUN .. [[",
      ttl = 2 })
    worker_store = assert(dlock.open{ url = url, prefix = "]] .. RUN .. [[",
      ttl = 2, scope = "worker" })
    function wait_entered(key, times)
      while (ngx.shared.results:get(key) or 0) < times do ngx.sleep(0.01) end
    end
  }
  init_worker_by_lua_block { collectgarbage("@COLLECTOR@", 1) }
]]
local STOPPED = HTTP:gsub("@COLLECTOR@", "stop")
local WORKING = HTTP:gsub("@COLLECTOR@", "setpause")

local LOCATIONS = [[
  location = /hold { lua_check_client_abort on; content_by_lua_block {
    ngx.shared.results:incr(ngx.var.arg_key .. ":asked", 1, 0)
    local lease = assert(store:lock(ngx.var.arg_key, { timeout = 20 }))
    ngx.shared.results:set(ngx.var.arg_key, "held")
    ngx.sleep(tonumber(ngx.var.arg_for or 20))
    ngx.print(tostring((lease:release())))
  } }
  location = /both { lua_check_client_abort on; content_by_lua_block {
    require("dlock").all{ store:mutex(ngx.var.arg_key, { min_hold = 60 }),
      store:mutex(ngx.var.arg_key .. "2") }:acquire{ timeout = 20 }
  } }
  location = /hold_off { lua_check_client_abort off; content_by_lua_block {
    local lease = assert(store:lock(ngx.var.arg_key, { timeout = 20 }))
    ngx.sleep(tonumber(ngx.var.arg_for))
    ngx.shared.results:set(ngx.var.arg_key, tostring(lease:held()))
  } }
  location = /exit { content_by_lua_block {
    assert(store:lock(ngx.var.arg_key))
    ngx.exit(204)
  } }
  location = /fail { content_by_lua_block {
    assert(store:lock(ngx.var.arg_key))
    error("the handler failed")
  } }
  location = /end { content_by_lua_block {
    assert(store:lock(ngx.var.arg_key))
    ngx.print("ended")
  } }
  location = /exec { content_by_lua_block {
    assert(store:lock(ngx.var.arg_key))
    ngx.exec("/target", { key = ngx.var.arg_key })
  } }
  location = /target { content_by_lua_block {
    ngx.print((select(3, store:try_lock(ngx.var.arg_key))))
  } }
  location = /sub { content_by_lua_block {
    local res = ngx.location.capture("/end", { args = ngx.var.args })
    ngx.print((select(3, store:try_lock(ngx.var.arg_key))) or "free")
  } }
  location = /timer { content_by_lua_block {
    local key = ngx.var.arg_key
    ngx.timer.at(0, function()
      assert(store:lock(key))
      ngx.shared.results:set(key, "held")
    end)
  } }
  location = /worker { content_by_lua_block {
    keep.lease = assert(worker_store:lock(ngx.var.arg_key))
    ngx.print("kept")
  } }
  location = /worker_release { content_by_lua_block {
    ngx.print(tostring(keep.lease:held()), tostring(keep.lease:release()))
  } }
  location = /detach { content_by_lua_block {
    ngx.print((assert(assert(store:lock(ngx.var.arg_key,
      { ttl = 20 })):detach())))
  } }
  location = /detach_late { lua_check_client_abort on;
    content_by_lua_block {
      local lease = assert(store:lock(ngx.var.arg_key, { ttl = 60 }))
      wait_entered(ngx.var.arg_key, 1)
      ngx.shared.results:set(ngx.var.arg_key, "detaching")
      lease:detach()
    }
    log_by_lua_block { ngx.shared.results:set(ngx.var.arg_key, "over") }
  }
  location = /enter { content_by_lua_block {
    ngx.shared.results:incr(ngx.var.arg_key, 1, 0)
  } }
  location = /attach { content_by_lua_block {
    local lease = assert(store:attach(ngx.unescape_uri(ngx.var.arg_text)))
    ngx.print(tostring(lease:held()), lease.key)
  } }
  location = /reentrant { lua_check_client_abort on; content_by_lua_block {
    local mutex = store:mutex(ngx.var.arg_key, { reentrant = true })
    local outer, _, code = mutex:acquire{
      timeout = tonumber(ngx.var.arg_timeout or 20) }
    if not outer then ngx.print(code) return end
    local inner = assert(mutex:try_acquire())
    ngx.shared.results:set(ngx.var.arg_key, "held")
    ngx.sleep(tonumber(ngx.var.arg_for))
    assert(inner:release())
    ngx.print(tostring(outer:held()))
  } }
  location = /reentrant_worker { content_by_lua_block {
    local mutex = worker_store:mutex(ngx.var.arg_key, { reentrant = true })
    local lease, _, code = mutex:try_acquire()
    keep[#keep + 1] = lease
    ngx.print(code or "entered")
  } }
  location = /share { content_by_lua_block {
    local lease = assert(store:lock(ngx.var.arg_key,
      { reentrant = true, owner = "both" }))
    ngx.shared.results:incr(ngx.var.arg_key, 1, 0)
    wait_entered(ngx.var.arg_key, tonumber(ngx.var.arg_until))
    ngx.print(tostring(lease:held()), " ", ngx.var.arg_release
      and tostring(lease:release()) or "")
  } }
  location = /lost { content_by_lua_block {
    local key = ngx.var.arg_key
    local lease = assert(worker_store:lock(key, { ttl = 0.4, renew = false }))
    keep.lost = lease
    lease:on_lost(function(l)
      ngx.shared.results:set(key, "lost in " .. ngx.get_phase())
    end)
  } }
  location = /lost_before { content_by_lua_block {
    local lease = assert(store:lock(ngx.var.arg_key,
      { ttl = 0.1, renew = false }))
    repeat ngx.sleep(0.05) until not lease:held()
    ngx.sleep(0.6) -- what looks for events has found nothing to run
    local told
    lease:on_lost(function() told = true end)
    local began = ngx.now()
    while not told and ngx.now() - began < 10 do
      ngx.sleep(0.05)
      ngx.update_time()
    end
    ngx.print(tostring(told))
  } }
  location = /result { content_by_lua_block {
    ngx.print(ngx.shared.results:get(ngx.var.arg_key) or "none")
  } }
]]

describe("a request of OpenResty", function()
  local n, r, other, key
  local count = 0

  local function result(of)
    return (select(2, n:get("/result?key=" .. key .. (of or ""))))
  end

  local function held()
    return r:call("EXISTS", RUN .. key) == 1
  end

  -- Seconds until somebody who waits has it.
  local function taken_after(act)
    act()
    local began = core.now()
    local lease = assert(other:lock(key, { timeout = 10 }))
    local seconds = core.now() - began
    assert(lease:release())
    return seconds
  end

  local function wait_held()
    assert(nginx.wait_for(10, held), "never held " .. n:log())
  end

  setup(function()
    r = assert(redis.connect())
    n = nginx.start { http = STOPPED, server = LOCATIONS }
    other = assert(dlock.open { url = URL, prefix = RUN, host = "blocking" })
    assert(other:ping())
  end)

  teardown(function()
    other:close(1)
    n:stop()
    r:close()
  end)

  local function set_up()
    count = count + 1
    key = "k" .. count
  end

  local timed = steady(set_up)

  it("that is aborted releases within 50 ms", function()
    local best, attempts = 1, 0
    repeat
      attempts = attempts + 1
      local one = n:begin("/hold?key=" .. key)
      wait_held()
      uv.sleep(50) -- the worker is idle
      best = math.min(best, taken_after(function()
        one:abort()
        uv.run("nowait")
      end))
    until best < 0.05 or attempts == 20
    assert.is_true(best < 0.05, "it took " .. best .. " s")
  end)

  it("that is aborted while it waits leaves the queue", function()
    local mine = assert(other:lock(key))
    local one = n:begin("/hold?key=" .. key)
    local two = n:begin("/hold?key=" .. key .. "&for=0.01")
    -- Whoever is gone before its handler begins is not seen to go.
    assert(nginx.wait_for(10, function() return result(":asked") == "2" end))
    one:abort()
    uv.sleep(100)
    assert(mine:release())
    assert.equal("true", (select(2, two:finish())))
    assert(other:lock(key, { timeout = 10 })):release()
  end)

  it("that is aborted while it waits for a second lock gives back the first",
  function()
    local second = assert(other:lock(key .. "2"))
    local one = n:begin("/both?key=" .. key)
    wait_held()
    one:abort()
    assert(other:lock(key, { timeout = 10 })):release()
    assert(second:release())
  end)

  it("goes on after an abort that is not looked for", function()
    local one = n:begin("/hold_off?for=0.3&key=" .. key)
    wait_held()
    one:abort()
    uv.run("nowait")
    assert(other:lock(key, { timeout = 5 })):release()
    assert.equal("true", result())
  end)

  it("releases at ngx.exit, at an error, and at its end", function()
    for _, path in ipairs { "/exit", "/fail", "/end" } do
      promptly(0.5, function()
        return taken_after(function() n:get(path .. "?key=" .. key) end)
      end)
    end
  end)

  it("keeps its lease over ngx.exec, to the end of the target", function()
    promptly(0.5, function()
      assert.equal("busy", (select(2, n:get("/exec?key=" .. key))))
      return taken_after(function() end)
    end)
  end)

  it("keeps what a subrequest took until the main request ends", function()
    promptly(0.5, function()
      assert.equal("busy", (select(2, n:get("/sub?key=" .. key))))
      return taken_after(function() end)
    end)
  end)

  it("may be a timer's", function()
    promptly(0.5, function()
      set_up()
      n:get("/timer?key=" .. key)
      assert(nginx.wait_for(5, function() return result() == "held" end))
      return taken_after(function() end)
    end)
  end)

  it("does not own a lease of scope = 'worker'", function()
    assert.equal("kept", (select(2, n:get("/worker?key=" .. key))))
    uv.sleep(2500) -- longer than its ttl: it is renewed
    assert.equal("busy", (select(3, other:try_lock(key))))
    assert.equal("truetrue", (select(2, n:get("/worker_release"))))
    assert(other:try_lock(key)):release()
  end)

  it("does not own what it detached; who attaches it does", function()
    promptly(0.5, function()
      local _, text = n:get("/detach?key=" .. key)
      assert.equal("busy", (select(3, other:try_lock(key))))
      local escaped = text:gsub("[^%w]", function(c)
        return ("%%%02X"):format(c:byte())
      end)
      assert.equal("true" .. key,
        (select(2, n:get("/attach?text=" .. escaped))))
      return taken_after(function() end)
    end)
  end)

  -- ngx_lua recycles coroutine objects.
  it("that is aborted while it detaches leaves nothing", function()
    finally(function() r:call("CLIENT", "UNPAUSE") end)
    local one = n:begin("/detach_late?key=" .. key)
    wait_held()
    r:call("CLIENT", "PAUSE", "20000", "WRITE")
    n:get("/enter?key=" .. key)
    assert(nginx.wait_for(10, function() return result() == "detaching" end))
    one:abort()
    assert(nginx.wait_for(10, function() return result() == "over" end))
    r:call("CLIENT", "UNPAUSE")
    assert(other:lock(key, { timeout = 10 })):release()
  end)

  it("does not enter on the reentrancy count of another", function()
    for _ = 1, 20 do
      local one = n:begin("/reentrant?for=5&key=" .. key)
      wait_held()
      local two = n:begin("/reentrant?timeout=0.2&for=0.01&key=" .. key)
      local _, code = two:finish()
      -- A machine may stand still until it is too late for an answer.
      assert.is_true(code == "timeout" or code == "unavailable", code)
      one:abort()
      uv.run("nowait")
      assert(nginx.wait_for(5, function() return not held() end))
    end
    local _, body = n:get("/reentrant?for=0.01&key=" .. key)
    assert.equal("true", body)
  end)

  it("does not enter on it either when the lease outlives its request",
    function()
      assert.equal("entered",
        (select(2, n:get("/reentrant_worker?key=" .. key))))
      for _ = 1, 20 do
        assert.equal("busy",
          (select(2, n:get("/reentrant_worker?key=" .. key))))
      end
    end)

  it("ends only its own share of a lease that another one holds too", function()
    -- The key is on the server before the first one's request knows of it, and
    -- until then the second one would queue behind it.
    local function wait_entered(times)
      assert(nginx.wait_for(10, function()
        return result() == tostring(times)
      end), result())
    end
    local one = n:begin("/share?until=2&key=" .. key)
    wait_entered(1)
    local two = n:begin("/share?until=3&release=1&key=" .. key)
    assert.equal("true ", (select(2, one:finish())))
    assert.is_true(held())
    n:get("/enter?key=" .. key)
    assert.equal("true true", (select(2, two:finish())))
    one = n:begin("/share?until=6&key=" .. key)
    wait_entered(4)
    two = n:begin("/share?until=5&key=" .. key)
    assert.equal("true ", (select(2, two:finish())))
    assert.is_true(held())
    n:get("/enter?key=" .. key)
    assert.equal("true ", (select(2, one:finish())))
    assert(other:lock(key, { timeout = 10 })):release()
  end)

  timed("hears of a lost lease in a timer, although nobody waits", function()
    n:get("/lost?key=" .. key)
    assert(nginx.wait_for(5, function()
      return result() == "lost in timer"
    end), result())
  end)

  it("sees a loss from before it asked, although it never waits",
    function()
      local _, body = n:get("/lost_before?key=" .. key)
      assert.equal("true", body)
    end)

  it("leaves nothing in the log but its own error", function()
    for _, line in ipairs(n:complaints()) do
      assert.matches("the handler failed", line)
    end
  end)
end)

describe("a worker of OpenResty", function()
  local n, r, other, key
  local count = 100

  local function set_up()
    r = assert(redis.connect())
    n = nginx.start { http = WORKING, server = LOCATIONS }
    other = assert(dlock.open { url = URL, prefix = RUN, host = "blocking" })
    count = count + 1
    key = "k" .. count
  end

  local function tear_down()
    other:close(1)
    n:stop()
    r:close()
  end

  local timed = steady(set_up, tear_down)

  local function wait_held()
    assert(nginx.wait_for(10, function()
      return r:call("EXISTS", RUN .. key) == 1
    end), "never held " .. n:log())
  end

  timed("that is reloaded serves those who hold and wait to the end", function()
    local one = n:begin("/hold?for=0.7&key=" .. key)
    wait_held()
    local two = n:begin("/hold?for=0.3&key=" .. key)
    assert(nginx.wait_for(10, function()
      return #assert(other:inspect(key)).waiters == 1
    end))
    local old = n:reload()
    local three = n:begin("/hold?for=0.05&key=" .. key) -- a new worker's
    assert.equal("true", (select(2, one:finish())))
    assert.equal("true", (select(2, two:finish())))
    local gone = n:wait_gone(old, 5)
    assert.equal("true", (select(2, three:finish())))
    assert.is_true(gone and gone < 1.5, tostring(gone))
    assert.same({}, n:complaints())
  end)

  timed("that is idle goes at once when it is reloaded", function()
    assert.equal(200, (n:get("/end?key=" .. key)))
    local old = n:reload()
    local gone = n:wait_gone(old, 5)
    assert.is_true(gone and gone < 1.5, tostring(gone))
  end)

  it("that is killed leaves a lease that ends at its ttl", function()
    local one = n:begin("/hold?key=" .. key)
    wait_held()
    local waiting = n:workers()
    uv.kill(waiting[1], "sigkill")
    assert.is_nil((one:finish()))
    local lease = assert(other:lock(key, { timeout = 10 }))
    assert(lease:release())
  end)

  timed("that was upgraded to a new binary ends its leases", function()
    n:stop()
    n = nginx.start { http = WORKING, server = LOCATIONS, daemon = true }
    local one = n:begin("/hold?for=0.6&key=" .. key)
    wait_held()
    local old = n:workers()
    n.server:signal("sigusr2")
    local new
    assert(nginx.wait_for(10, function()
      local file = io.open(n.dir .. "/nginx.pid")
      new = file and file:read("*n")
      if file then file:close() end
      return new and new ~= n.pid
    end), n:log())
    n.server:signal("sigwinch")
    assert.equal("true", (select(2, one:finish())))
    local gone = n:wait_gone(old, 5)
    local second = n:begin("/hold?for=0.01&key=" .. key)
    local _, body = second:finish()
    uv.kill(new, "sigterm")
    assert(n:wait_gone({ new }, 5))
    assert.equal("true", body)
    assert.is_true(gone and gone < 1.5, tostring(gone))
  end)
end)
