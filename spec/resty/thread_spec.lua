-- ngx.run_worker_thread in a real nginx: its Lua state has no phase in which to
-- wait, so dlock waits there as in plain Lua. Runs on LuaJIT only: that is the
-- Lua which nginx has.
if not rawget(_G, "jit") then
  return
end

local dlock = require "dlock"
local nginx = require "spec.support.nginx"
local uv = require "luv"

local URL = os.getenv("DLOCK_TEST_REDIS")
local KEY = ("threads%d"):format(uv.os_getpid())

local SERVER = [[
  location = /lock { content_by_lua_block {
    local ok, result = ngx.run_worker_thread("locks",
      "spec.support.worker_thread", "lock", os.getenv("DLOCK_TEST_REDIS"),
      "]] .. KEY .. [[", tonumber(ngx.var.arg_for))
    ngx.print(tostring(ok), " ", result)
  } }
  location = /other { content_by_lua_block { ngx.print("served") } }
]]

describe("ngx.run_worker_thread", function()
  local n, other

  setup(function()
    n = nginx.start { main = "thread_pool locks threads=4;", server = SERVER }
    other = assert(dlock.open { url = URL, host = "blocking" })
  end)

  teardown(function()
    other:close(1)
    n:stop()
  end)

  it("waits, and is renewed, while nginx serves others", function()
    local held = assert(other:lock(KEY))
    local one = n:begin("/lock?for=0.8")
    assert(nginx.wait_for(10, function()
      return #assert(other:inspect(KEY)).waiters == 1
    end), "it does not wait: " .. tostring(one.text))
    assert.equal("served", (select(2, n:get("/other"))))
    assert(held:release())
    assert.equal("true held true, released true, told nil, closed true",
      (select(2, one:finish())))
    assert.same({}, n:complaints())
  end)

  it("serves one request after the other with its Lua states", function()
    for _ = 1, 3 do
      local requests = {}
      for i = 1, 4 do requests[i] = n:begin("/lock?for=0.01") end
      for i = 1, 4 do
        assert.matches("^true held true", (select(2, requests[i]:finish())))
      end
    end
  end)
end)
