-- How many results every call gives, in a handler of a real nginx. Runs on
-- LuaJIT only: that is the Lua which nginx has.
if not rawget(_G, "jit") then
  return
end

local nginx = require "spec.support.nginx"
local uv = require "luv"

local HTTP = [[
  init_by_lua_block {
    down = assert(require("dlock").open{ url = "redis://127.0.0.1:1",
      connect_timeout = 0.2, io_timeout = 0.2 })
  }
]]

local SERVER = [[
  location = /results { content_by_lua_block {
    local found = require("spec.support.results").find(function()
      return assert(require("dlock").open(os.getenv("DLOCK_TEST_REDIS")))
    end, down, "results]] .. uv.os_getpid() .. [[")
    ngx.print(table.concat(found, "\n"))
  } }
]]

describe("in nginx", function()
  local n

  teardown(function() if n then n:stop() end end)

  it("one value alone when it worked, and three when not", function()
    n = nginx.start { http = HTTP, server = SERVER }
    local status, body = n:get("/results")
    assert.are.equal("200 ", status .. " " .. tostring(body), n:log())
  end)
end)
