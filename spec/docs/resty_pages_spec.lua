-- The blocks of docs/openresty.md, in one nginx: its configurations are parts
-- of one, the others are handlers that use the store which the first one opens.
-- Runs on LuaJIT only: that is the Lua which nginx has.
if not rawget(_G, "jit") then
  return
end

local dlock = require "dlock"
local loop = require "spec.support.loop"
local nginx = require "spec.support.nginx"
local pages = require "spec.support.pages"
local server = require "spec.support.server"
local uv = require "luv"

local PAGE = "docs/openresty.md"
local URLS = { redis = assert(os.getenv("DLOCK_TEST_REDIS")) .. "/9" }

-- What the page leaves out: what stands behind http://importer. It says whether
-- the lock is held meanwhile, and how many are in there.
local IMPORTER = [[
  upstream importer { server 127.0.0.1:%d; }
  server {
    listen 127.0.0.1:%d;
    location / {
      content_by_lua_block {
        local seen = package.loaded.importer or { inside = 0 }
        package.loaded.importer = seen
        seen.inside = seen.inside + 1
        local held = store:mutex("import"):locked()
        ngx.sleep(0.02)
        ngx.say(held and "held" or "free", " ", seen.inside)
        seen.inside = seen.inside - 1
        ngx.print(("x"):rep(tonumber(ngx.var.arg_size) or 0))
      }
    }
  }
]]

describe("docs/openresty.md", function()
  local n, handlers

  setup(function()
    local https, inners, locations = {}, {}, {}
    handlers = {}
    for _, block in ipairs(pages.blocks(PAGE)) do
      local text = pages.here(block, URLS)
      if block.language == "nginx" then
        local http, inner = text:match("^http {\n(.-)\n  server {\n(.*)}\n}$")
        assert(http, "no longer an http block with one server in it")
        https[#https + 1], inners[#inners + 1] = http, inner
      else
        assert.equal("lua", block.language)
        handlers[#handlers + 1] = "/line-" .. block.line
        locations[#handlers] = ("location = %s {\n  content_by_lua_block {\n%s"
          .. "\n  }\n}"):format(handlers[#handlers], text)
      end
    end
    local port = server.free_port()
    n = nginx.start {
      http = table.concat(https, "\n") .. "\n" .. IMPORTER:format(port, port),
      server = table.concat(inners, "\n") .. "\n"
        .. table.concat(locations, "\n"),
    }
  end)

  teardown(function()
    n:stop()
  end)

  it("holds the lock until the importer has answered", function()
    local requests = {}
    for i = 1, 5 do requests[i] = n:begin("/import") end
    for i = 1, 5 do
      local status, body = requests[i]:finish()
      assert.equal(200, status, body .. n:log())
      assert.equal("held 1\n", body)
    end
    local store = assert(dlock.open(URLS.redis))
    assert(store:lock("import", { timeout = 5 })):release()
    store:close()
    assert.same({}, n:complaints())
  end)

  it("releases although a client does not read the answer", function()
    local socket = uv.new_tcp()
    local sent
    socket:connect("127.0.0.1", n.port, function()
      socket:write("GET /import?size=20000000 HTTP/1.0\r\n\r\n", function()
        sent = true
      end)
    end)
    assert(loop.wait(5, function() return sent end))
    local status, body = n:get("/import")
    assert.equal(200, status, body)
    assert.equal("held 1\n", body)
    local store = assert(dlock.open(URLS.redis))
    assert(store:lock("import", { timeout = 5 })):release()
    store:close()
    loop.close(socket)
  end)

  it("answers 503 with Retry-After to a request that gets no lock", function()
    local store = assert(dlock.open(URLS.redis))
    local lease = assert(store:lock("import", { timeout = 5 }))
    -- What the case before had may be logged late.
    local function complaints()
      local list = {}
      for _, line in ipairs(n:complaints()) do
        if not line:find("buffered to a temporary file", 1, true) then
          list[#list + 1] = line
        end
      end
      return list
    end
    local before = #complaints()
    local one = n:begin("/import")
    assert.equal(503, (one:finish()))
    assert.matches("\r\nRetry%-After: %d+\r\n", one.text)
    assert(lease:release())
    store:close()
    local found = complaints()
    assert.equal(before + 1, #found)
    assert.matches("[warn]", found[#found], 1, true)
    assert.matches("timeout: 'import' still held", found[#found], 1, true)
  end)

  it("has the statistics of all workers on one page", function()
    local status, body = n:get("/metrics")
    assert.equal(200, status)
    assert.matches('dlock_acquires_total{store="redis://[^"]+",prefix="dlock:",'
      .. 'worker="0",result="granted"} [1-9]', body)
  end)

  it("has handlers that work, also all at once", function()
    assert.is_true(#handlers > 0)
    for _, path in ipairs(handlers) do
      local requests, seen = {}, {}
      for i = 1, 10 do requests[i] = n:begin(path) end
      for i = 1, 10 do
        local status, body = requests[i]:finish()
        assert.equal(200, status, path)
        local fence = body:match("fence (%d+)")
        assert(fence or body:find("^waited for [%d.]+ s\n$"), body)
        assert.is_nil(seen[fence or i])
        seen[fence or i] = true
      end
    end
  end)
end)
