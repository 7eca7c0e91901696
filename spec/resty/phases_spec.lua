-- What works in which phase of OpenResty, each cell of the table in
-- docs/openresty.md tried in a real nginx: waiting, and the calls that do not
-- wait. Runs on LuaJIT only: that is the Lua which nginx has.
if not rawget(_G, "jit") then
  return
end

local nginx = require "spec.support.nginx"
local process = require "spec.support.process"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local uv = require "luv"

local RUN = ("phases%d:"):format(uv.os_getpid())

-- In these a handler can wait; in the others it is told "unsupported".
local WAITS = {
  "server_rewrite", "rewrite", "access", "content", "timer", "ssl_cert",
  "ssl_cert_1.3", "subrequest", "light_thread", "coroutine",
}
-- With what the message has to offer instead.
local CANNOT = {
  init = "init_worker", init_worker = "ngx.timer.at", set = "access",
  header_filter = "release_later", body_filter = "release_later",
  log = "release_later", balancer = "access",
  ssl_client_hello = "ssl_certificate", ["ssl_client_hello_1.3"] =
  "ssl_certificate", ssl_session_fetch = "ssl_certificate",
  ssl_session_store = "ngx.timer.at", exit_worker = "release_later",
}
local NO_LEASE_YET = { init = true, init_worker = true }

local HTTP = [[
  lua_shared_dict results 1m;
  lua_shared_dict sessions 1m;
  ssl_session_fetch_by_lua_block { probe("ssl_session_fetch")
    local ssl = require "ngx.ssl.session"
    local id = ssl.get_session_id()
    local found = id and ngx.shared.sessions:get(id)
    if found then ssl.set_serialized_session(found) end
  }
  ssl_session_store_by_lua_block { probe("ssl_session_store")
    local ssl = require "ngx.ssl.session"
    ngx.shared.sessions:set(ssl.get_session_id(),
      (ssl.get_serialized_session()))
  }
  init_by_lua_block {
    local dlock = require "dlock"
    local url = os.getenv("DLOCK_TEST_REDIS")
    store = assert(dlock.open{ url = url, prefix = "@RUN@" })
    worker_store = assert(dlock.open{ url = url, prefix = "@RUN@w:",
      scope = "worker" })
    leases = {}
    function probe(phase)
      local results = ngx.shared.results
      local lease = leases[phase]
      if lease then
        local held = lease:held() and lease:remaining() > 0
          and tostring(lease):find("held")
        local plain = held and lease:release_later() and not lease:held()
        results:set("plain:" .. phase, plain and "works" or "fails")
        leases[phase] = nil
      end
      local got, message, code = store:lock("k:" .. phase, { timeout = 5 })
      if not got then
        results:set(phase, code .. " " .. message)
        return
      end
      local ok, why = got:release()
      results:set(phase, ok and "waits" or why)
    end
    probe("init")
  }
  init_worker_by_lua_block {
    probe("init_worker")
    ngx.timer.at(0, function()
      if ngx.shared.results:get("ready") then return end
      for phase in ("@ALL@"):gmatch("%S+") do
        leases[phase] = assert(worker_store:lock("w:" .. phase))
      end
      probe("timer")
      ngx.shared.results:set("ready", "yes")
    end)
  }
  exit_worker_by_lua_block { probe("exit_worker") }
  upstream up {
    server 127.0.0.1:1;
    balancer_by_lua_block {
      probe("balancer")
      assert(require("ngx.balancer").set_current_peer("127.0.0.1",
        ngx.var.server_port))
    }
  }
  server {
    listen 127.0.0.1:@SSL@ ssl;
    ssl_certificate @DIR@/cert.pem;
    ssl_certificate_key @DIR@/key.pem;
    ssl_protocols TLSv1.2;
    ssl_session_tickets off;
    ssl_session_cache shared:tls:1m;
    ssl_client_hello_by_lua_block { probe("ssl_client_hello") }
    ssl_certificate_by_lua_block { probe("ssl_cert") }
    location / { return 200 "hello\n"; }
  }
  server {
    listen 127.0.0.1:@NEWSSL@ ssl;
    ssl_certificate @DIR@/cert.pem;
    ssl_certificate_key @DIR@/key.pem;
    ssl_protocols TLSv1.3;
    ssl_client_hello_by_lua_block { probe("ssl_client_hello_1.3") }
    ssl_certificate_by_lua_block { probe("ssl_cert_1.3") }
    location / { return 200 "hello $ssl_protocol\n"; }
  }
]]

local SERVER = [[
  server_rewrite_by_lua_block {
    if ngx.var.uri == "/all" then probe("server_rewrite") end
  }
  location = /all {
    set_by_lua_block $x { probe("set") return "" }
    rewrite_by_lua_block { probe("rewrite") }
    access_by_lua_block { probe("access") }
    content_by_lua_block {
      probe("content")
      ngx.location.capture("/sub")
      assert(ngx.thread.wait(ngx.thread.spawn(probe, "light_thread")))
      coroutine.wrap(probe)("coroutine")
      ngx.print("done")
    }
    header_filter_by_lua_block { probe("header_filter") }
    body_filter_by_lua_block { probe("body_filter") }
    log_by_lua_block { probe("log") }
  }
  location = /sub { content_by_lua_block { probe("subrequest") } }
  location = /balanced { proxy_pass http://up/inner; }
  location = /inner { return 200 "inner"; }
  location = /result { content_by_lua_block {
    ngx.print(ngx.shared.results:get(ngx.var.arg_of) or "none")
  } }
  location = /below_c { content_by_lua_block {
    local said = { "none", "none" }
    local lease = assert(store:lock("held"))
    local blocker = assert(worker_store:lock("k:below"))
    local function try()
      local got, message, code = store:lock("k:below", { timeout = 5 })
      local ok, advice, why = lease:release()
      said = { got and "got" or code, ok and "released" or why, message,
        select(2, tostring(advice):gsub("release_later", "")) }
    end
    local ways = {
      ["table.sort"] = function()
        table.sort({ 2, 1 }, function(a, b) try() return a < b end)
      end,
      ["string.gsub"] = function() string.gsub("x", ".", try) end,
      ["in a coroutine"] = function()
        coroutine.wrap(function() string.gsub("x", ".", try) end)()
      end,
      ["in a light thread"] = function()
        ngx.thread.wait(ngx.thread.spawn(function()
          string.gsub("x", ".", try)
        end))
      end,
    }
    local ok, problem = pcall(ways[ngx.unescape_uri(ngx.var.arg_way)])
    if not ok then said[3] = problem end
    ngx.say(said[1], " ", said[2], " ", tostring(said[3]))
    ngx.say(lease:held() and "held" or "not held", ", told ", said[4])
    ngx.say(lease:release() and "released" or "not released")
    -- Through functions of Lua, and pcall, a wait goes on as ever.
    blocker:release_later()
    local metamethod = setmetatable({}, { __index = function()
      return pcall(try) and said[1]
    end })
    ngx.print(metamethod.x)
  } }
  location = /acquire_then_log {
    access_by_lua_block {
      ngx.ctx.lease = assert(store:lock("across"))
      ngx.ctx.other = assert(worker_store:lock("across"))
    }
    content_by_lua_block { ngx.print(tostring(ngx.ctx.lease:held())) }
    log_by_lua_block {
      ngx.ctx.lease:release_later()
      ngx.ctx.other:release_later()
    }
  }
]]

local function all_phases()
  local list = {}
  for _, name in ipairs(WAITS) do list[#list + 1] = name end
  for name in pairs(CANNOT) do list[#list + 1] = name end
  return table.concat(list, " ")
end

local function certificate(dir)
  local status, _, err = process.run { command = { "openssl", "req", "-x509",
    "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
    "-keyout", dir .. "/key.pem", "-out", dir .. "/cert.pem" } }
  assert(status == 0, err)
end

local function tls_request(port, options)
  local status, out, err = process.run {
    command = { "sh", "-c", ("printf 'GET / HTTP/1.0\\r\\n\\r\\n' |"
      .. " openssl s_client -ign_eof -connect 127.0.0.1:%d %s")
      :format(port, options) },
  }
  assert(status == 0 and out:find("hello", 1, true), out .. err)
  return out
end

describe("phases of OpenResty:", function()
  local n, r, dir

  local function result(of)
    return (select(2, n:get("/result?of=" .. of)))
  end

  setup(function()
    r = assert(redis.connect())
    dir = server.new_dir()
    certificate(dir)
    local port, newer = server.free_port(), server.free_port()
    local http = HTTP:gsub("@(%u+)@", { RUN = RUN, ALL = all_phases(),
      SSL = port, NEWSSL = newer, DIR = dir })
    n = nginx.start { http = http, server = SERVER }
    assert(nginx.wait_for(10, function() return result("ready") == "yes" end),
      n:log())
    assert.equal(200, (n:get("/all")))
    assert.equal("inner", (select(2, n:get("/balanced"))))
    tls_request(port, "-tls1_2 -sess_out " .. dir .. "/tls")
    tls_request(port, "-tls1_2 -sess_in " .. dir .. "/tls")
    assert.matches("hello TLSv1.3", tls_request(newer, "-tls1_3"), 1, true)
    local old = n:reload()
    assert(n:wait_gone(old, 10), "the old worker stays")
  end)

  teardown(function()
    n:stop()
    r:close()
    server.remove_dir(dir)
  end)

  for _, phase in ipairs(WAITS) do
    it(phase .. " can wait", function()
      assert.equal("waits", result(phase), n:log())
      assert.equal("works", result("plain:" .. phase))
    end)
  end

  for phase, instead in pairs(CANNOT) do
    it(phase .. " is told that it cannot wait, and what can", function()
      local text = result(phase)
      assert.matches("^unsupported unsupported: ", text)
      assert.matches(phase:match("^[%a_]*%a"), text, 1, true)
      assert.matches(instead, text, 1, true)
      if not NO_LEASE_YET[phase] then
        assert.equal("works", result("plain:" .. phase))
      end
    end)
  end

  for _, way in ipairs { "table.sort", "string.gsub", "in a coroutine",
      "in a light thread" } do
    it("content is told that nothing can wait below a C function: " .. way,
    function()
      local _, text = n:get("/below_c?way=" .. way:gsub(" ", "%%20"))
      assert.matches("^unsupported unsupported unsupported: ", text)
      assert.matches("release_later", text, 1, true)
      assert.matches("\nheld, told 1\nreleased\ngot$", text)
    end)
  end

  it("acquire in access and release_later in log", function()
    assert.equal("true", (select(2, n:get("/acquire_then_log"))))
    assert(nginx.wait_for(5, function()
      return r:call("EXISTS", RUN .. "across") == 0
        and r:call("EXISTS", RUN .. "w:across") == 0
    end))
  end)

  it("leaves nothing on the server and in the log", function()
    assert.same({}, n:complaints())
    assert(nginx.wait_for(5, function()
      for _, name in ipairs(r:call("KEYS", RUN .. "*")) do
        if not name:find(":f:", 1, true) then return false end
      end
      return true
    end))
  end)
end)
