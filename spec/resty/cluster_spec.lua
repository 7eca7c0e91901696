-- OpenResty's host on a Redis Cluster, whose slots move meanwhile.
if not rawget(_G, "jit") then
  return
end

local cluster = require "spec.support.cluster"
local nginx = require "spec.support.nginx"

local KEYS = 8

local HTTP = [[
  init_by_lua_block {
    store = assert(require("dlock").open { url = "%s" })
  }
]]

local SERVER = [[
  location = /hold { content_by_lua_block {
    local lease = assert(store:lock(ngx.var.arg_key, { timeout = 30 }))
    ngx.sleep(0.01)
    assert(lease:held())
    assert(lease:release())
    ngx.print(lease.fence)
  } }
]]

describe("host resty on a cluster", function()
  local set, n

  setup(function()
    set = cluster.start { replicas = 0 }
    n = nginx.start { workers = 2, http = HTTP:format(set.url),
      server = SERVER }
  end)

  teardown(function()
    n:stop()
    set:stop()
  end)

  it("serves all who wait while slots move", function()
    local requests = {}
    for i = 1, 10 * KEYS do
      requests[i] = n:begin("/hold?key=k" .. i % KEYS)
    end
    for i = 1, KEYS do
      local slot = set:slot_of("k" .. i % KEYS)
      set:move(slot, set:other(slot))
    end
    local fences = {}
    for i, request in ipairs(requests) do
      local status, fence = request:finish()
      assert.equal(200, status, n:log())
      assert.is_nil(fences[fence .. " " .. i % KEYS])
      fences[fence .. " " .. i % KEYS] = true
    end
    assert.same({}, n:complaints())
  end)
end)
