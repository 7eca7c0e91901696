-- Under load, in a real nginx: what does not wait is not slowed down by what
-- does, nothing grows, and nothing is written into the error log. Runs on
-- LuaJIT only: that is the Lua which nginx has.
if not rawget(_G, "jit") then
  return
end

local nginx = require "spec.support.nginx"
local server = require "spec.support.server"
local uv = require "luv"

local RUN = ("load%d:"):format(uv.os_getpid())

local HTTP = [[
  init_by_lua_block {
    local dlock = require "dlock"
    store = assert(dlock.open{ url = os.getenv("DLOCK_TEST_REDIS"),
      prefix = "]] .. RUN .. [[" })
    counter = { n = 0, sleeps = 0 }
    local waiters = require "dlock.host.nginx.waiters"
    local sleep = waiters.sleep
    function waiters.sleep(...)
      counter.sleeps = counter.sleeps + 1
      return sleep(...)
    end
  }
]]

local SERVER = [[
  location = /pair { content_by_lua_block {
    counter.n = counter.n + 1
    local lease, message = store:lock("k" .. counter.n % 100,
      { timeout = 20 })
    if not lease then ngx.log(ngx.ERR, message) ngx.exit(500) end
    assert(lease:release())
    ngx.print("x")
  } }
  location = /abandon { content_by_lua_block {
    counter.n = counter.n + 1
    assert(store:lock("k" .. counter.n % 100, { timeout = 20 }))
    ngx.print("x")
  } }
  location = /wait { lua_check_client_abort on; content_by_lua_block {
    local lease = store:lock("one", { timeout = 60 })
    if lease then ngx.sleep(60) end
  } }
  location = /sleeps { content_by_lua_block { ngx.print(counter.sleeps) } }
  location = /nothing { content_by_lua_block { ngx.print("x") } }
]]

local WITHOUT_CACHE = [[
  lua_code_cache off;
  location = /pair { content_by_lua_block {
    local store = assert(require("dlock").open{
      url = os.getenv("DLOCK_TEST_REDIS"), prefix = "]] .. RUN .. [[" })
    assert(assert(store:lock("k", { timeout = 20 })):release())
    ngx.print("x")
  } }
]]

local function status_of(pid, field)
  local text = server.read_file("/proc/" .. pid .. "/status")
  return tonumber(text:match(field .. ":%s*(%d+)"))
end

local function descriptors(pid)
  local count, scan = 0, uv.fs_scandir("/proc/" .. pid .. "/fd")
  while scan and uv.fs_scandir_next(scan) do count = count + 1 end
  return count
end

local function usage(pid)
  return {
    kib = status_of(pid, "VmRSS"), threads = status_of(pid, "Threads"),
    descriptors = descriptors(pid),
  }
end

-- Once it has no more threads and (but for a few) descriptors than that; the
-- clients' connections are closed then.
local function usage_at_rest(pid, most)
  local now
  assert(nginx.wait_for(10, function()
    now = usage(pid)
    return now.threads <= most.threads
      and now.descriptors <= most.descriptors + 3
  end), ("%d threads and %d descriptors, no more than %d and %d before"):format(
    now.threads, now.descriptors, most.threads, most.descriptors))
  return now
end

describe("under load, OpenResty", function()
  local n

  after_each(function()
    n:stop()
  end)

  it("grows in nothing, and logs nothing", function()
    n = nginx.start { http = HTTP, server = SERVER }
    local pid = n:workers()[1]
    for _, path in ipairs { "/pair", "/abandon" } do
      assert.equal(200, (n:get(path)))
      local idle = usage(pid)
      n:wrk(path, { seconds = 2 })
      local before = usage_at_rest(pid, idle)
      n:wrk(path, { seconds = 3 })
      local after = usage_at_rest(pid, idle)
      assert.is_true(after.kib < before.kib + 4096,
        before.kib .. " to " .. after.kib .. " KiB")
    end
    assert.same({}, n:complaints())
  end)

  -- Each looks once a second whether all is well.
  it("has nothing to do for 500 handlers that wait", function()
    n = nginx.start { http = HTTP, server = SERVER }
    local function sleeps()
      return tonumber((select(2, n:get("/sleeps"))))
    end
    assert.equal(200, (n:get("/pair")))
    local waiting = {}
    for i = 1, 500 do waiting[i] = n:begin("/wait") end
    for _ = 1, 100 do assert.equal("x", select(2, n:get("/nothing"))) end
    local began, before = uv.hrtime(), sleeps()
    uv.sleep(2000)
    local woken = sleeps() - before
    local seconds = (uv.hrtime() - began) / 1e9
    assert.is_true(woken > 0 and woken <= 500 * (seconds + 1), woken)
    for i = 1, 500 do waiting[i]:abort() end
    assert.equal("x", select(2, n:get("/pair")))
    assert.same({}, n:complaints())
  end)

  it("is bounded with lua_code_cache off", function()
    n = nginx.start { http = "", server = WITHOUT_CACHE }
    local pid = n:workers()[1]
    local before = usage(pid)
    for _ = 1, 100 do assert.equal(200, (n:get("/pair"))) end
    local between = usage_at_rest(pid, before)
    for _ = 1, 200 do assert.equal(200, (n:get("/pair"))) end
    local after = usage_at_rest(pid, before)
    assert.is_true(after.kib < between.kib + 20000,
      between.kib .. " to " .. after.kib .. " KiB")
    for _, line in ipairs(n:complaints()) do
      assert.matches("lua_code_cache is off", line)
    end
  end)
end)
