-- The host of OpenResty, in a real nginx: what works in which phase, and how
-- requests wait. Runs on LuaJIT only: that is the Lua which nginx has.
if not rawget(_G, "jit") then
  return
end

local nginx = require "spec.support.nginx"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local uv = require "luv"

local RUN = ("resty%d:"):format(uv.os_getpid())

local HTTP = [[
  init_by_lua_block {
    dlock = require "dlock"
    store = assert(dlock.open{ url = os.getenv("DLOCK_TEST_REDIS"),
      prefix = "]] .. RUN .. [[" })
  }
]]

local SERVER = [[
  location = /pair { content_by_lua_block {
    local lease = assert(store:lock("pair", { timeout = 20 }))
    assert(lease:release())
    ngx.print(lease.fence)
  } }
  location = /hold { content_by_lua_block {
    local lease = assert(store:lock(ngx.var.arg_key, { timeout = 20 }))
    local seconds = tonumber(ngx.var.arg_for)
    if seconds > 0 then ngx.sleep(seconds) end
    ngx.print(tostring((lease:release())))
  } }
  location = /token { lua_check_client_abort on; content_by_lua_block {
    local lease = store:try_lock("token" .. ngx.worker.pid())
    if lease then ngx.sleep(60) end
  } }
  location = /unfair { content_by_lua_block {
    local mutex = store:mutex("unfair", { fair = false })
    local lease = assert(mutex:acquire { timeout = 20 })
    local file = assert(io.open(ngx.var.arg_file, "r"))
    local count, last = file:read("*n", "*n")
    file:close()
    ngx.sleep(0.002)
    file = assert(io.open(ngx.var.arg_file, "w"))
    file:write(count + 1, " ", lease.fence)
    file:close()
    assert(lease:held() and lease:release())
    ngx.print(lease.fence > last and "larger" or "not larger", " ",
      store:stats().local_handoffs)
  } }
  location = /nothing { content_by_lua_block { ngx.print("nothing") } }
  location = /try { content_by_lua_block {
    local lease, message, code = store:try_lock(ngx.var.arg_key)
    if lease then lease:release() end
    ngx.print(code or "free")
  } }
]]

describe("host resty", function()
  local n, r

  setup(function()
    r = assert(redis.connect())
    n = nginx.start { http = HTTP, server = SERVER }
  end)

  teardown(function()
    n:stop()
    r:close()
  end)

  local timed = steady()

  it("locks and releases in a store opened by init_by_lua", function()
    local status, fence = n:get("/pair")
    assert.equal(200, status, n:log())
    local _, second = n:get("/pair")
    assert.is_true(tonumber(second) > tonumber(fence))
  end)

  timed("serves other requests while a hundred wait", function()
    local waiting = { n:begin("/hold?key=a&for=1.5") }
    for i = 2, 100 do waiting[i] = n:begin("/hold?key=a&for=0") end
    local before = uv.hrtime()
    for _ = 1, 20 do assert.equal("nothing", select(2, n:get("/nothing"))) end
    -- A worker that is blocked would serve none of them within the 1.5 s.
    assert.is_true(uv.hrtime() - before < 1.2e9)
    for i = 1, 100 do
      local status, body = waiting[i]:finish()
      assert.equal(200, status)
      assert.equal("true", body)
    end
    assert.equal("free", select(2, n:get("/try?key=a")))
  end)

  it("hands an unfair lock from request to request, on two workers", function()
    local dir = server.new_dir()
    local file, requests, handed = dir .. "/count", {}, 0
    server.write_file(file, "0 0")
    local two = nginx.start { workers = 2, http = HTTP, server = SERVER }
    for i = 1, 80 do requests[i] = two:begin("/unfair?file=" .. file) end
    for i = 1, 80 do
      local status, body = requests[i]:finish()
      assert.equal(200, status, two:log())
      local fence, count = body:match("^(.+) (%d+)$")
      assert.equal("larger", fence)
      handed = math.max(handed, tonumber(count))
    end
    two:stop()
    assert.equal("80 ", server.read_file(file):match("^%d+ "))
    assert.is_true(handed > 0)
    server.remove_dir(dir)
  end)

  -- What was drawn at random before the fork must not serve twice.
  it("gives the leases of two workers different tokens", function()
    local two = nginx.start { workers = 2, http = HTTP, server = SERVER }
    local requests, tokens, clients = {}, {}, {}
    for i = 1, 40 do requests[i] = two:begin("/token") end
    assert(nginx.wait_for(10, function()
      local busy = 0
      for i = 1, 40 do busy = busy + (requests[i].ended and 1 or 0) end
      return busy == 38
    end), "one worker got all requests")
    for _, name in ipairs(r:call("KEYS", RUN .. "token*")) do
      local random, client = r:call("GET", name):match("^(%x+):(%x+):")
      tokens[random], clients[client] = true, true
    end
    for i = 1, 40 do requests[i]:abort() end
    assert(nginx.wait_for(10, function()
      return #r:call("KEYS", RUN .. "token*") == 0
    end))
    two:stop()
    local function size(set)
      local count = 0
      for _ in pairs(set) do count = count + 1 end
      return count
    end
    assert.equal(2, size(tokens))
    assert.equal(2, size(clients))
  end)

  it("leaves nothing on the server and in the log", function()
    assert.same({}, n:complaints())
    for _, name in ipairs(r:call("KEYS", "*" .. RUN .. "*")) do
      assert.matches(":f:", name)
    end
  end)
end)
