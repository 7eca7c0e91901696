-- Redlock in nginx: requests of two workers that want one lock, also while two
-- of five servers are lost.
if not rawget(_G, "jit") then
  return
end

local nginx = require "spec.support.nginx"
local redlock = require "spec.support.redlock"

local SERVER = [[
  location = /hold { content_by_lua_block {
    local lease, message = store:lock("k", { timeout = 50 })
    if not lease then return ngx.print(message) end
    ngx.sleep(0.002)
    ngx.print(lease:held() and lease:release() and lease.fence)
  } }
]]

describe("Redlock in host resty", function()
  local set, n

  setup(function()
    set = redlock.start()
    n = nginx.start { workers = 2, server = SERVER, http = [[
      init_by_lua_block {
        store = assert(require("dlock").open { node_timeout = 1,
          url = "]] .. set.url .. [[" })
      } ]] }
  end)

  teardown(function()
    n:stop()
    set:stop()
  end)

  local function hold(count)
    local requests, seen = {}, {}
    for i = 1, count do requests[i] = n:begin("/hold") end
    for i = 1, count do
      local status, fence = requests[i]:finish(60)
      assert.equal(200, status, n:log())
      assert.matches("^%d+$", fence)
      assert.is_nil(seen[fence])
      seen[fence] = true
    end
  end

  it("serves each request once", function()
    hold(40)
    set.nodes[1]:kill()
    set.nodes[4]:kill()
    hold(20)
    assert.same({}, n:complaints())
  end)
end)
