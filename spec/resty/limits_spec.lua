-- In a real nginx that is short of timers, connections or shared memory:
-- waiters are served all the same, and dropped timers are started again. dlock
-- keeps nothing in shared memory (no spec configures a lua_shared_dict for it),
-- so the case there is a handler's own dictionary, which is full. Runs on
-- LuaJIT only: that is the Lua which nginx has.
if not rawget(_G, "jit") then
  return
end

local dlock = require "dlock"
local nginx = require "spec.support.nginx"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local uv = require "luv"

local RUN = ("limits%d:"):format(uv.os_getpid())
local URL = os.getenv("DLOCK_TEST_REDIS")
-- How long the last case keeps on; a minute shows more than CI has time for.
local SECONDS = tonumber(os.getenv("DLOCK_LIMITS_SECONDS") or 3)

local HTTP = [[
  init_by_lua_block {
    store = assert(require("dlock").open{ url = os.getenv("DLOCK_TEST_REDIS"),
      prefix = "]] .. RUN .. [[" })
    there = {}
    function exists(path)
      local file = io.open(path)
      if file then file:close() end
      return file ~= nil
    end
    function wait_for(path)
      while not exists(path) do ngx.sleep(0.01) end
    end
  }
]]

local SERVER = [[
  location = /pairs { content_by_lua_block {
    for i = 1, tonumber(ngx.var.arg_count) do
      local lease, _, code = store:lock("pairs", { timeout = 20 })
      if not lease then ngx.print(code) return end
      local ok, message = lease:release()
      if not ok then ngx.print(message) return end
    end
    ngx.print("done")
  } }
  location = /hold { content_by_lua_block {
    local lease = assert(store:lock(ngx.var.arg_key, { timeout = 20 }))
    wait_for(ngx.var.arg_file)
    ngx.print(tostring((lease:release())))
  } }
  location = /wait { content_by_lua_block {
    wait_for(ngx.var.arg_file)
    local lease, message, code = store:lock("first", { timeout = 20 })
    ngx.print(code or "granted", " ", message or lease:release())
  } }
  location = /timer { content_by_lua_block {
    local path = ngx.var.arg_file
    ngx.timer.at(0, function() wait_for(path) end)
    ngx.print("given")
  } }
  location = /late { content_by_lua_block {
    local path = ngx.var.arg_file
    ngx.timer.at(tonumber(ngx.var.arg_after), function() there[path] = true end)
    while not there[path] do ngx.sleep(0.01) end
    ngx.print("ended")
  } }
  location = /stay { content_by_lua_block {
    ngx.log(ngx.NOTICE, "somebody stays")
    wait_for(ngx.var.arg_file)
    ngx.print("stayed")
  } }
  location = /running { content_by_lua_block {
    ngx.print(ngx.timer.running_count(), " ", ngx.timer.pending_count())
  } }
  location = /cache { content_by_lua_block {
    local full = ngx.shared.full
    local ok, message = store:with("cache", { timeout = 20 }, function(lease)
      local stored, problem = full:safe_set("page", ("x"):rep(4000))
      ngx.print(tostring(stored), " ", problem, " ", tostring(lease:held()))
    end)
    ngx.print(" ", tostring(ok), message or "")
  } }
  location = /lost { content_by_lua_block {
    local lease = assert(store:lock("lost", { ttl = 0.3, renew = false }))
    lease:on_lost(function() there.lost = true end)
    while not there.lost do ngx.sleep(0.01) end
    ngx.print("told")
  } }
  location = /losses { content_by_lua_block {
    local told, count = 0, 60
    for i = 1, count do
      local lease = assert(store:lock("lost" .. i,
        { ttl = 0.1, renew = false }))
      lease:on_lost(function()
        ngx.sleep(0.05)
        told = told + 1
      end)
      ngx.sleep(0.02)
    end
    while told < count do ngx.sleep(0.01) end
    ngx.print(told)
  } }
]]

local FULL = [[
  lua_shared_dict full 12k;
  init_worker_by_lua_block {
    local n = 0
    repeat n = n + 1 until not ngx.shared.full:safe_set(n, ("x"):rep(50))
  }
]]

describe("OpenResty that is short of", function()
  local n, dir, other, count

  local function start(opts)
    opts.http = HTTP .. (opts.http or "")
    opts.server = SERVER
    n = nginx.start(opts)
  end

  local function set_up()
    dir = server.new_dir()
    other = assert(dlock.open { url = URL, prefix = RUN, host = "blocking" })
    count = 0
  end

  local function tear_down()
    other:close(1)
    n:stop()
    server.remove_dir(dir)
  end

  local timed = steady(set_up, tear_down)

  -- A file that does not exist yet, for handlers to wait for.
  local function new_file()
    count = count + 1
    return dir .. "/" .. count
  end

  local function get(path, timeout)
    return (select(2, n:get(path, timeout)))
  end

  local function running()
    return (get("/running"):match("^%d+"))
  end

  -- A waiter behind a lock that is held elsewhere: its pump has to run.
  local function expect_pump()
    local held = assert(other:lock("recovered"))
    local file = new_file()
    server.write_file(file, "")
    local one = n:begin("/hold?key=recovered&file=" .. file)
    assert(nginx.wait_for(10, function() return running() == "1" end),
      "the pump does not run\n" .. n:log())
    assert(held:release())
    assert.equal("true", (select(2, one:finish())))
  end

  -- Handlers that take all connections that are left, one after the other:
  -- nginx takes back those that have not sent their request yet.
  local function exhaust(file)
    local taken, entered = {}, 0
    repeat
      local one = n:begin("/stay?file=" .. file)
      taken[#taken + 1] = one
      assert(nginx.wait_for(10, function()
        entered = select(2, n:log():gsub("somebody stays", ""))
        return one.ended or entered == #taken
      end), n:log())
    until entered < #taken
    return taken
  end

  it("running timers serves the waiters, and recovers", function()
    start { http = "lua_max_running_timers 1;" }
    local file = new_file()
    assert.equal("given", get("/timer?file=" .. file))
    assert(nginx.wait_for(15, function() return running() == "1" end))
    -- One that is left to a look of its own every 5 s takes minutes.
    local requests = {}
    for i = 1, 5 do requests[i] = n:begin("/pairs?count=20") end
    for i = 1, 5 do
      assert.equal("done", (select(2, requests[i]:finish(15))))
    end
    server.write_file(file, "")
    assert(nginx.wait_for(15, function() return running() == "0" end))
    expect_pump()
  end)

  it("running timers reports a lost lease all the same", function()
    start { http = "lua_max_running_timers 1;" }
    assert.equal("told", get("/lost", 15))
  end)

  -- nginx writes a line for each timer that it drops.
  for most = 1, 3 do
    it("running timers (" .. most .. ") fills no log with 60 losses", function()
      start { http = ("lua_max_running_timers %d;"):format(most) }
      assert.equal("60", get("/losses", 30))
      local dropped = #n:complaints()
      assert(dropped <= 25, dropped .. " lines in the log")
    end)
  end

  timed("pending timers says so, releases what is held, and recovers",
  function()
    start { http = "lua_max_pending_timers 1;" }
    local file = new_file()
    local holder = n:begin("/hold?key=held&file=" .. file)
    -- To try it would be to take it before the holder does.
    assert(nginx.wait_for(15, function() return other:inspect("held") end))
    assert(nginx.wait_for(15, function() return running() == "0" end))
    local late = n:begin("/late?after=1.5&file=" .. new_file())
    assert(nginx.wait_for(15, function() return get("/running") == "0 1" end))
    assert.equal("unavailable", get("/pairs?count=1"))
    server.write_file(file, "")
    assert.equal("true", (select(2, holder:finish())))
    assert.equal("ended", (select(2, late:finish())))
    assert.equal("done", get("/pairs?count=20"))
    expect_pump()
  end)

  -- Two workers, so that waiters of both go through the store.
  it("shared memory locks, hands on and releases all the same", function()
    start { workers = 2, http = FULL }
    local requests = {}
    for i = 1, 20 do
      requests[i] = n:begin(i % 2 == 0 and "/pairs?count=10" or "/cache")
    end
    for i = 1, 20 do
      assert.equal(i % 2 == 0 and "done" or "false no memory true true",
        (select(2, requests[i]:finish(15))))
    end
    assert.same({}, n:complaints())
    expect_pump()
  end)

  it("connections for its first timer answers unavailable", function()
    start { connections = 24 }
    local file, stay = new_file(), new_file()
    local one = n:begin("/wait?file=" .. file)
    local taken = exhaust(stay)
    server.write_file(file, "")
    local _, body = one:finish()
    assert.matches("^unavailable unavailable: ", body)
    server.write_file(stay, "")
    for _, request in ipairs(taken) do request:finish(1) end
    assert.equal("done", get("/pairs?count=20"))
    expect_pump()
  end)

  timed("connections for the pump serves those who wait, and recovers",
  function()
    start { connections = 24 }
    assert.equal("done", get("/pairs?count=1"))
    assert(nginx.wait_for(15, function() return running() == "0" end))
    local file, stay, waiting = new_file(), new_file(), {}
    for i = 1, 3 do waiting[i] = n:begin("/wait?file=" .. file) end
    local taken = exhaust(stay)
    server.write_file(file, "")
    for i = 1, 3 do
      assert.equal("granted true", (select(2, waiting[i]:finish(4))))
    end
    server.write_file(stay, "")
    for _, request in ipairs(taken) do request:finish(1) end
    expect_pump()
  end)

  -- Timers are given and dropped by turns, under load.
  it("timers now and then goes on", function()
    start { http = "lua_max_running_timers 1;" }
    local ended = uv.hrtime() + SECONDS * 1e9
    local served = 0
    while uv.hrtime() < ended do
      local file = new_file()
      get("/timer?file=" .. file)
      local requests = {}
      for i = 1, 16 do requests[i] = n:begin("/pairs?count=10") end
      for i = 1, 8 do
        assert.equal("done", (select(2, requests[i]:finish(15))))
      end
      server.write_file(file, "")
      for i = 9, 16 do
        assert.equal("done", (select(2, requests[i]:finish(15))))
      end
      served = served + 16
    end
    assert.is_true(served > 0)
    expect_pump()
    for _, line in ipairs(n:complaints()) do
      assert.matches("lua_max_running_timers are not enough", line)
    end
  end)
end)
