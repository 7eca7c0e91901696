-- dlock.compat.resty_lock in a real nginx, where programs have lua-resty-lock.
-- Runs on LuaJIT only: that is the Lua which nginx has.
if not rawget(_G, "jit") then
  return
end

local nginx = require "spec.support.nginx"
local uv = require "luv"

local RUN = ("resty_lock%d:"):format(uv.os_getpid())

local HTTP = [[
  init_by_lua_block {
    resty_lock = require "dlock.compat.resty_lock"
    resty_lock.use(assert(require("dlock").open{
      url = os.getenv("DLOCK_TEST_REDIS"), prefix = "]] .. RUN .. [[" }))
    made, page = 0, false
  }
]]

local SERVER = [[
  location = /page { content_by_lua_block {
    local lock = assert(resty_lock:new("my_locks"))
    local elapsed = assert(lock:lock("page"))
    if not page then
      ngx.sleep(0.1)
      made = made + 1
      page = "made" .. made
    end
    ngx.print(elapsed > 0 and "waited " or "first ", page, " ", lock:unlock())
  } }
  location = /in_log {
    access_by_lua_block {
      ngx.ctx.lock = assert(resty_lock:new("my_locks"))
      assert(ngx.ctx.lock:lock("log"))
    }
    content_by_lua_block { ngx.print("x") }
    log_by_lua_block {
      local ok, err = ngx.ctx.lock:unlock()
      if ok ~= 1 then ngx.log(ngx.ERR, err) end
    }
  }
  location = /forgets { content_by_lua_block {
    ngx.print(assert(assert(resty_lock:new("my_locks")):lock("forgotten")))
  } }
]]

describe("dlock.compat.resty_lock in nginx", function()
  local n

  setup(function() n = nginx.start { http = HTTP, server = SERVER } end)
  teardown(function() n:stop() end)

  it("has handlers wait for each other", function()
    local requests, first = {}, 0
    for i = 1, 20 do requests[i] = n:begin("/page") end
    for i = 1, 20 do
      local _, body = requests[i]:finish()
      assert.matches("^%a+ made1 1$", body)
      first = first + (body:find("^first") and 1 or 0)
    end
    assert.is_true(first < 20) -- some came while the first one worked
    assert.same({}, n:complaints())
  end)

  it("unlocks in log_by_lua, and at the end of the request", function()
    for _, path in ipairs { "/in_log", "/forgets" } do
      for _ = 1, 3 do
        local begun = uv.hrtime()
        assert.equal(200, (n:get(path)))
        assert.is_true(uv.hrtime() - begun < 4e9, path .. " waited")
      end
    end
    assert.same({}, n:complaints())
  end)
end)
