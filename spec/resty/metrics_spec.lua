-- The statistics of all workers on one page, in a real nginx. Runs on LuaJIT
-- only: that is the Lua which nginx has.
if not rawget(_G, "jit") then
  return
end

local nginx = require "spec.support.nginx"
local uv = require "luv"

local HTTP = [[
  lua_shared_dict dlock 1m;
  lua_shared_dict tiny 12k;
  init_by_lua_block {
    dlock = require "dlock"
    local url = os.getenv("DLOCK_TEST_REDIS")
    store = assert(dlock.open{ url = url, prefix = "metrics]]
      .. uv.os_getpid() .. [[:" })
    other = assert(dlock.open{ url = url, prefix = "other:" })
    function page(name)
      return dlock.prometheus{ store, other, shared = name }
    end
  }
  init_worker_by_lua_block {
    ngx.timer.every(0.2, function() page("dlock") end)
  }
]]

local SERVER = [[
  location = /lock { content_by_lua_block {
    assert(store:lock("k" .. ngx.worker.id())):release()
    ngx.print(ngx.worker.id())
  } }
  location = /metrics { content_by_lua_block { ngx.print(page("dlock")) } }
  location = /full { content_by_lua_block {
    local _, message, code = page("tiny")
    ngx.print(code, " ", message)
  } }
  location = /missing { content_by_lua_block {
    ngx.print((select(3, page("no such"))))
  } }
]]

describe("the statistics of nginx's workers", function()
  local n

  setup(function()
    n = nginx.start { workers = 2, http = HTTP, server = SERVER }
  end)

  teardown(function() n:stop() end)

  -- Of each worker how many locks it had, as the page says.
  local function granted()
    local status, body = n:get("/metrics")
    assert.equal(200, status)
    local found, seen = {}, {}
    for line in body:gmatch("[^\n]+") do
      local name = line:match("^# TYPE %S+") or line:match("^(.*}) ")
      assert.is_nil(name and seen[name], line .. " stands there twice")
      if name then seen[name] = true end
      local worker, number = line:match('^dlock_acquires_total{.*prefix='
        .. '"metrics%d+:",worker="(%d+)",result="granted"} (%d+)$')
      if worker then found[worker] = tonumber(number) end
    end
    return found
  end

  it("are on one page, each series once", function()
    local had = { ["0"] = 0, ["1"] = 0 }
    for _ = 1, 200 do
      local _, worker = n:get("/lock")
      had[worker] = had[worker] + 1
      if had["0"] > 2 and had["1"] > 2 then break end
    end
    assert.is_true(had["0"] > 0 and had["1"] > 0)
    local found
    assert(nginx.wait_for(10, function()
      found = granted()
      return found["0"] == had["0"] and found["1"] == had["1"]
    end), ("0: %s of %s, 1: %s of %s"):format(found["0"], had["0"],
      found["1"], had["1"]))
  end)

  it("begin anew with a new worker, under the same name", function()
    assert(n:wait_gone(n:reload(), 10))
    assert(nginx.wait_for(10, function()
      local found = granted()
      return found["0"] == 0 and found["1"] == 0
    end))
  end)

  it("are refused by a dictionary that is full or missing", function()
    local _, body = n:get("/full")
    assert.matches("^unavailable unavailable: .* make it larger", body)
    assert.equal("invalid", (select(2, n:get("/missing"))))
    assert.same({}, n:complaints())
  end)
end)
