-- dlock.fallback in a real nginx: the leases that it gives end with their
-- request, also those that no variable refers to, and count until then. Runs on
-- LuaJIT only: that is the Lua which nginx has.
if not rawget(_G, "jit") then
  return
end

local nginx = require "spec.support.nginx"
local redis = require "spec.support.redis"
local server = require "spec.support.server"

local HTTP = [[
  lua_shared_dict results 1m;
  init_by_lua_block {
    local dlock = require "dlock"
    first = assert(dlock.open{ url = "@FIRST@", timeout = 2,
      connect_timeout = 0.5 })
    second = assert(dlock.open{ url = "file://@DIR@/locks", timeout = 2 })
    results = ngx.shared.results
    function over(key, on_degraded)
      return assert(dlock.fallback{ first:mutex(key), second:mutex(key),
        grace = 0, hold_off = 0.2, on_degraded = on_degraded })
    end
    function wait(name)
      for _ = 1, 2000 do
        if results:get(name) then return end
        ngx.sleep(0.01)
      end
      error(name .. " did not come")
    end
  }
]]

local LOCATIONS = [[
  location = /set { content_by_lua_block {
    results:set(ngx.var.arg_of, true)
  } }
  location = /wait { content_by_lua_block { wait(ngx.var.arg_of) } }
  location = /keep { content_by_lua_block {
    assert(assert(over("one"):acquire()).degraded)
    collectgarbage()
    collectgarbage()
    results:set("kept", true)
    wait("go")
    ngx.print((select(3, second:try_lock("one"))))
  } }
  location = /beside { content_by_lua_block {
    local message
    local lock = over("two", function(what) message = what.message end)
    repeat -- until the first store has answered a sign of life
      message = nil
      local lease = assert(lock:acquire())
      local degraded = lease.degraded
      assert(lease:release())
      ngx.sleep(0.01)
    until not degraded or message:find("answers again", 1, true)
    ngx.sleep(0.4) -- longer than hold_off
    local lease = assert(lock:acquire())
    ngx.print(lease.degraded and "degraded" or "not degraded")
    assert(lease:release())
  } }
  location = /after { content_by_lua_block {
    local lock = over "two"
    repeat
      local lease = assert(lock:acquire())
      local degraded = lease.degraded
      assert(lease:release())
      ngx.sleep(0.01)
    until not degraded
    ngx.print("restored")
  } }
]]

describe("dlock.fallback in OpenResty", function()
  local n, first, dir

  setup(function()
    first, dir = redis.start(), server.new_dir()
    local http = HTTP:gsub("@FIRST@", first.url):gsub("@DIR@", dir)
    n = nginx.start { http = http, server = LOCATIONS }
  end)

  teardown(function()
    n:stop()
    first:stop()
    server.remove_dir(dir)
  end)

  local function get(path)
    local status, body = n:get(path)
    assert.are.equal(200, status, n:log())
    return body
  end

  it("uses no store beside a degraded lease that no variable refers to",
    function()
      assert(first:kill())
      local keeps = n:begin "/keep"
      get "/wait?of=kept"
      first:start_again()
      assert.are.equal("degraded", get "/beside")
      get "/set?of=go"
      local status, body = keeps:finish()
      assert.are.same({ 200, "busy" }, { status, body }, n:log())
      assert.are.equal("restored", get "/after")
    end)
end)
