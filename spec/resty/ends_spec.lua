-- Ends that no code of ours sees, in a real nginx whose collector works hard: a
-- phase in which nothing can wait, a lease that nobody refers to, a light
-- thread that is killed, a callback that does not come back. Runs on LuaJIT
-- only: that is the Lua which nginx has.
if not rawget(_G, "jit") then
  return
end

local dlock = require "dlock"
local nginx = require "spec.support.nginx"
local redis = require "spec.support.redis"
local steady = require "spec.support.steady"
local uv = require "luv"

local RUN = ("ends%d:"):format(uv.os_getpid())
local URL = os.getenv("DLOCK_TEST_REDIS")

local HTTP = [[
  lua_shared_dict results 1m;
  init_by_lua_block {
    local dlock = require "dlock"
    local url = os.getenv("DLOCK_TEST_REDIS")
    store = assert(dlock.open{ url = url, prefix = "]] .. RUN .. [[",
      ttl = 2 })
    worker_store = assert(dlock.open{ url = url, prefix = "]] .. RUN .. [[",
      ttl = 2, scope = "worker" })
    function collect()
      for i = 1, 100000 do local _ = { i } end
      collectgarbage()
      collectgarbage()
    end
    function try(key)
      local lease, _, code = store:try_lock(key)
      if lease then lease:release() end
      return code or "free"
    end
    function enter(key)
      local mutex = store:mutex(key, { reentrant = true })
      local lease, _, code = mutex:try_acquire()
      return lease and tostring((lease:release())) or code
    end
    function note(text)
      ngx.shared.results:incr(text, 1, 0)
    end
  }
  init_worker_by_lua_block {
    collectgarbage("setpause", 1)
    store:mutex("init", { reentrant = true }):try_acquire()
  }
]]

local LOCATIONS = [[
  location = /result { content_by_lua_block {
    ngx.print(ngx.shared.results:get(ngx.var.arg_of) or "none")
  } }
  location = /try { content_by_lua_block { ngx.print(try(ngx.var.arg_key)) } }
  location = /in_log {
    content_by_lua_block { ngx.print("logged") }
    log_by_lua_block {
      local mutex = store:mutex(ngx.var.arg_key, { reentrant = true })
      local _, _, code = mutex:try_acquire()
      note(code)
    }
  }
  location = /keep { content_by_lua_block {
    collectgarbage("stop")
    assert(store:lock(ngx.var.arg_key))
    ngx.print("kept")
  } }
  location = /collected {
    access_by_lua_block { assert(store:lock(ngx.var.arg_key)) }
    content_by_lua_block {
      collect()
      ngx.print(try(ngx.var.arg_key))
    }
  }
  location = /exec { content_by_lua_block {
    assert(store:lock(ngx.var.arg_key))
    ngx.exec("/target", { key = ngx.var.arg_key })
  } }
  location = /target { content_by_lua_block {
    collect()
    ngx.print(try(ngx.var.arg_key))
  } }
  location = /take { content_by_lua_block {
    assert(store:lock(ngx.var.arg_key))
  } }
  location = /sub { content_by_lua_block {
    ngx.location.capture("/take", { args = ngx.var.args })
    collect()
    ngx.print(try(ngx.var.arg_key))
  } }
  location = /entered { content_by_lua_block {
    local mutex = store:mutex(ngx.var.arg_key, { reentrant = true })
    assert(mutex:acquire())
    for _ = 1, 3 do
      collect()
      local inner = assert(mutex:try_acquire())
      assert(inner:release())
    end
    assert(mutex:acquire())
    collect()
    ngx.print(try(ngx.var.arg_key))
  } }
  location = /of_worker { content_by_lua_block {
    assert(worker_store:lock(ngx.var.arg_key))
    collect()
    ngx.print(try(ngx.var.arg_key))
  } }
  location = /killed { content_by_lua_block {
    local thread = ngx.thread.spawn(function()
      assert(store:lock(ngx.var.arg_key, { timeout = 20 }))
      note("granted_to_the_dead")
    end)
    note("waits")
    ngx.sleep(0.05)
    assert(ngx.thread.kill(thread))
    note("killed")
    ngx.sleep(20)
  } }
  location = /killed_at_grant { content_by_lua_block {
    local try = ngx.var.arg_try
    local thread = ngx.thread.spawn(function()
      ngx.sleep(0.02)
      note("queued_" .. try)
      local lease = assert(store:lock(ngx.var.arg_key, { timeout = 20 }))
      note("granted_" .. try)
      assert(lease:release())
    end)
    local lease = assert(store:lock(ngx.var.arg_key, { timeout = 20 }))
    local before = store:stats().local_handoffs
    assert(lease:release())
    local handed = store:stats().local_handoffs == before + 1
    local killed = ngx.thread.kill(thread)
    note((handed and killed and "killed_" or "again_") .. try)
    ngx.sleep(20)
  } }
  location = /of_worker_killed { lua_check_client_abort on;
    content_by_lua_block {
      note("waits_for_the_worker")
      assert(worker_store:lock(ngx.var.arg_key, { timeout = 20 }))
      note("granted_to_the_dead")
    }
  }
  location = /lost { content_by_lua_block {
    local told = false
    local lease = assert(store:lock(ngx.var.arg_key,
      { ttl = 0.8, renew = false }))
    lease:on_lost(function() told = true end)
    note("held")
    while not ngx.worker.exiting() and lease:extend() do ngx.sleep(0.05) end
    for _ = 1, 500 do
      if told then break end
      ngx.sleep(0.01)
    end
    ngx.print(told and "told in an exiting worker: "
      .. tostring(ngx.worker.exiting()) or "never told")
  } }
  location = /unreferenced { content_by_lua_block {
    local told, key = false, ngx.var.arg_key
    local function take()
      local lease = assert(store:lock(key, { ttl = 0.3, renew = false }))
      lease:on_lost(function(lost, reason)
        told = lost.key == key and reason:match("^%a+")
      end)
    end
    take()
    for _ = 1, 500 do
      collect()
      if told then break end
      ngx.sleep(0.01)
    end
    ngx.print(tostring(told))
  } }
  location = /callbacks { content_by_lua_block {
    local told = 0
    for i = 1, 3 do
      local lease = assert(store:lock(ngx.var.arg_key .. i,
        { ttl = 0.3, renew = false }))
      lease:on_lost(function() ngx.exit(200) end)
      lease:on_lost(function() ngx.sleep(1000) end)
      lease:on_lost(function() error("a callback failed") end)
      lease:on_lost(function()
        told = told + 1
        assert(store:lock("in a callback", { timeout = 5 })):release()
        told = told + 1
      end)
    end
    for _ = 1, 500 do
      if told == 6 then break end
      ngx.sleep(0.01)
    end
    ngx.print(told)
  } }
]]

describe("in OpenResty", function()
  local n, r, other, key
  local count = 0

  local function get(path)
    return (select(2, n:get(path .. "?key=" .. key)))
  end

  local function result(of)
    return (select(2, n:get("/result?of=" .. of)))
  end

  local function wait_result(of)
    assert(nginx.wait_for(10, function() return result(of) ~= "none" end),
      of .. " was not noted\n" .. n:log())
  end

  local function expect_free()
    local lease, message = other:lock(key, { timeout = 5 })
    assert(lease, message)
    assert(lease:release())
  end

  local function set_up()
    n = nginx.start { http = HTTP, server = LOCATIONS }
    r = assert(redis.connect())
    other = assert(dlock.open { url = URL, prefix = RUN, host = "blocking" })
    count = count + 1
    key = "k" .. count
  end

  local function tear_down()
    other:close(1)
    r:close()
    n:stop()
  end

  local timed = steady(set_up, tear_down)

  it("a call where nothing can wait leaves later requests alone", function()
    for _ = 1, 10 do
      assert.equal("logged", get("/in_log"))
      assert.equal("kept", get("/keep"))
      expect_free()
    end
    assert.equal("10", result("unsupported"))
  end)

  for _, path in ipairs { "/collected", "/exec", "/sub", "/entered" } do
    it("the collector leaves a lock to its request: " .. path, function()
      for _ = 1, 3 do
        assert.equal("busy", get(path))
        expect_free()
      end
    end)
  end

  it("a lease of the worker that is collected ends at its ttl", function()
    assert.equal("busy", get("/of_worker"))
    assert.matches("dropped: the lease on '" .. key .. "' was collected",
      n:log())
    expect_free()
  end)

  it("a light thread that was killed while it waited gets nothing", function()
    local held = assert(other:lock(key))
    local one = n:begin("/killed?key=" .. key)
    wait_result("killed")
    -- The wait is withdrawn while the lock is still held.
    assert(nginx.wait_for(10, function()
      return #assert(other:inspect(key)).waiters == 0
    end))
    assert(held:release())
    expect_free()
    assert.equal("none", result("granted_to_the_dead"))
    one:abort()
  end)

  it("a light thread that was killed before it saw its grant gets "
    .. "nothing", function()
    -- The first grant of a key on a connection sets no fences aside.
    assert.equal("free", get("/try"))
    -- On a busy machine the hand-off may go by the server, and then the thread
    -- sees its grant before it can be killed.
    local killed, try = false, 0
    repeat
      try = try + 1
      local held = assert(other:lock(key))
      local one = n:begin("/killed_at_grant?key=" .. key .. "&try=" .. try)
      wait_result("queued_" .. try)
      assert(held:release())
      assert(nginx.wait_for(10, function()
        killed = result("killed_" .. try) ~= "none"
        return killed or result("again_" .. try) ~= "none"
      end), n:log())
      expect_free()
      one:abort()
    until killed or try == 5
    assert.is_true(killed)
    assert.equal("none", result("granted_" .. try))
  end)

  it("an aborted request's wait is withdrawn, whosever its lease would be",
    function()
      local held = assert(other:lock(key))
      local one = n:begin("/of_worker_killed?key=" .. key)
      wait_result("waits_for_the_worker")
      assert(nginx.wait_for(10, function()
        return #assert(other:inspect(key)).waiters == 1
      end))
      one:abort()
      assert(nginx.wait_for(10, function()
        return #assert(other:inspect(key)).waiters == 0
      end))
      assert(held:release())
      expect_free()
    end)

  timed("an exiting worker tells its requests of their loss", function()
    local one = n:begin("/lost?key=" .. key)
    wait_result("held")
    local old = n:reload()
    assert.equal("told in an exiting worker: true", (select(2, one:finish())))
    assert(n:wait_gone(old, 10), "it stays")
  end)

  it("a lease that no variable refers to tells of its loss", function()
    assert.equal("lost", get("/unreferenced"))
  end)

  it("a callback that sleeps, exits or fails keeps no other", function()
    assert.equal("6", get("/callbacks"))
    local shown
    nginx.wait_for(5, function()
      shown = select(2, n:log():gsub("a callback failed", ""))
      return shown >= 3
    end)
    assert.equal(3, shown)
  end)
end)
