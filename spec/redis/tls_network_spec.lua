-- TLS on a network that misbehaves: bytes that come one by one, are held back,
-- changed, or end; a server that is killed. It is as without TLS.

local certificates = require "spec.support.certificates"
local dlock = require "dlock"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local uv = require "luv"

local made, one, old -- old: a server that speaks TLS 1.2 only
local p

describe("TLS on a bad network:", function()
  setup(function()
    made = certificates.make()
    one = redis.start(made:server "server")
    old = redis.start(made:server("server", { tls_protocols = '"TLSv1.2"' }))
  end)

  teardown(function()
    one:stop()
    old:stop()
    made:remove()
  end)

  local timed = steady(nil, function()
    if p then
      p:stop()
      p = nil
    end
    process.close_all()
  end)

  local function open(url, more)
    local opts = { url = url, tls = { cafile = made:path "ca.crt" },
      io_timeout = 3 }
    for name, value in pairs(more or {}) do opts[name] = value end
    return assert(dlock.open(opts))
  end

  for _, version in ipairs { "1.2", "1.3" } do
    timed("bytes come one by one, TLS " .. version, function()
      p = proxy.start(version == "1.2" and old.tls_url or one.tls_url)
      p:trickle("down", 40)
      local store = open(p.url, { connect_timeout = 20, io_timeout = 20 })
      assert(store:ping(20))
      -- The scripts' texts travel now, byte by byte they would take long.
      assert(assert(store:lock("bytes", { timeout = 20 })):release())
      p:trickle("both", 1)
      local lease = assert(store:lock("bytes", { timeout = 20 }))
      assert(lease:release())
      p:trickle "both"
      local other = open(p.url)
      lease = assert(other:lock "bytes")
      assert.are.equal("busy", select(3, store:try_lock "bytes"))
      assert(lease:release())
      other:close()
      store:close()
    end)
  end

  timed("a waiter hears its message through it", function()
    p = proxy.start(one.tls_url)
    local holder, store = open(one.tls_url), open(p.url)
    local lease = assert(holder:lock "message")
    local child = process.spawn { args = { p.url, made:path "ca.crt" },
      script = [[
        local dlock = require "dlock"
        local store = assert(dlock.open { url = arg[1],
          tls = { cafile = arg[2] } })
        print "waits"
        local lease = assert(store:lock("message", { timeout = 10 }))
        print "has it"
        assert(lease:release())
        store:close() ]] }
    child:expect "^waits$"
    local admin = one:connect()
    local limit = uv.hrtime() + 5e9
    while admin:queued("dlock:message") == 0 do
      assert(uv.hrtime() < limit, "nobody waits")
      uv.sleep(2)
    end
    p:trickle("down", 3)
    assert(lease:release())
    child:expect "^has it$"
    assert.are.equal(0, child:wait())
    admin:close()
    store:close()
    holder:close()
  end)

  -- An answer of more than 16 KB is read in parts, and of the last one no poll
  -- tells: OpenSSL has it. Here the answer would be missing with io_timeout.
  timed("an answer of two records is read to its end at once", function()
    p = proxy.start(one.tls_url)
    local store = open(p.url, { io_timeout = 0.2 })
    local lease = assert(store:lock("records", { ttl = 60 }))
    local text = ("x"):rep(20000)
    assert(lease:guard("SET", "records", text))
    -- The loop runs once in 10 ms; what is read besides is read without it.
    p:delay("down", 0.008)
    for _ = 1, 40 do
      assert.are.equal(text, (assert(lease:guard("GET", "records"))))
    end
    p:delay("down", 0)
    assert(lease:guard("DEL", "records"))
    assert(lease:release())
    store:close()
  end)

  timed("a handshake that gets no answer ends with connect_timeout", function()
    p = proxy.start(one.tls_url)
    p:hold "down"
    local store = open(p.url, { connect_timeout = 0.4 })
    local start = uv.hrtime()
    local _, message, code = store:ping()
    assert.are.equal("unavailable", code)
    assert.matches("does not answer the TLS handshake", message)
    assert.is_true((uv.hrtime() - start) / 1e9 < 3)
    p:release "down"
    assert(store:ping())
    store:close()
  end)

  timed("a handshake that is cut ends at once, and is begun anew", function()
    p = proxy.start(one.tls_url)
    p:hold "down"
    local store = open(p.url, { connect_timeout = 10 })
    local child = process.spawn { args = { p.url, made:path "ca.crt" },
      script = [[
        local dlock = require "dlock"
        local store = assert(dlock.open { url = arg[1], connect_timeout = 10,
          tls = { cafile = arg[2] } })
        print "starts"
        print(select(2, store:try_lock "cut"))
        print(store:ping() and "and goes on")
        store:close() ]] }
    child:expect "^starts$"
    local limit = uv.hrtime() + 5e9
    while p:stats().open == 0 do
      assert(uv.hrtime() < limit)
      uv.sleep(2)
    end
    p:close()
    p:release "down" -- by now it may be the next one's that is held
    child:expect "closed the connection during the TLS handshake"
    child:expect "^and goes on$"
    assert.are.equal(0, child:wait())
    store:close()
  end)

  timed("a byte that is lost ends the connection, and nothing else", function()
    p = proxy.start(one.tls_url)
    local store = open(p.url)
    local lease = assert(store:lock("lost byte", { ttl = 60 }))
    p:drop("down", 1)
    assert(store:ping()) -- which listens to no messages
    assert.is_true(lease:held())
    assert(lease:release())
    assert.are.equal(2, p:stats().connections)
    store:close()
  end)

  timed("a connection that is reset while a lock is held is made anew",
  function()
    p = proxy.start(one.tls_url)
    local store = open(p.url)
    local lease = assert(store:lock("reset", { ttl = 5 }))
    for _ = 1, 3 do
      p:reset()
      assert(lease:extend())
    end
    assert(lease:release())
    store:close()
  end)

  timed("a server that is killed kills no process by SIGPIPE", function()
    local mortal = redis.start(made:server "server")
    local child = process.spawn {
      args = { mortal.tls_url, made:path "ca.crt" }, script = [[
        local dlock = require "dlock"
        local store = assert(dlock.open { url = arg[1],
          tls = { cafile = arg[2] } })
        local lease = assert(store:lock("mortal", { ttl = 60 }))
        print "held"
        io.read()
        for _ = 1, 20 do store:ping(0.05) end
        print "lives"
        io.read()
        print(store:ping() and "pings")
        store:close() ]] }
    child:expect "^held$"
    mortal:kill()
    child:write "\n"
    child:expect "^lives$"
    mortal:start_again()
    child:write "\n"
    child:expect "^pings$"
    assert.are.equal(0, child:wait())
    mortal:stop()
  end)

  timed("each connection but the first resumes its session", function()
    for _, node in ipairs { old, one } do
      local _, out, err = process.run { env = { DLOCK_TRACE = "1" },
        args = { node.tls_url, made:path "ca.crt", node.url }, script = [[
          local dlock = require "dlock"
          local admin = require("spec.support.redis").connect(arg[3])
          local store = assert(dlock.open { url = arg[1],
            tls = { cafile = arg[2] } })
          local two = assert(dlock.open { url = arg[1],
            tls = { cafile = arg[2] } })
          assert(store:ping())
          local lease = assert(two:lock "resumed")
          repeat -- its second connection, which may take longer than that
            store:lock("resumed", { timeout = 0.2 })
          until #admin:call("PUBSUB", "CHANNELS") > 0
          admin:close()
          assert(lease:release())
          two:close()
          store:close() ]] }
      local new, resumed = 0, 0
      for how in err:gmatch "net tls the store: TLSv1%.%d, (%a+)" do
        if how == "new" then new = new + 1 else resumed = resumed + 1 end
      end
      assert.are.equal("", out)
      assert.are.equal(2, new, err) -- of each store the first
      assert.is_true(resumed >= 1, err)
    end
  end)

  timed("a session is not resumed with a CA that is not its own", function()
    local cafile = made:path "trusted.crt"
    -- Written over: only the time of its change is another one.
    local function trust(name)
      local text = server.read_file(made:path(name))
      local before = uv.fs_stat(cafile)
      local after
      repeat
        server.write_file(cafile, text .. ("\n"):rep(8192 - #text))
        after = assert(uv.fs_stat(cafile))
      until not before or after.ctime.sec ~= before.ctime.sec
        or after.ctime.nsec ~= before.ctime.nsec
      assert.are.equal(8192, after.size)
    end
    for _, node in ipairs { old, one } do
      trust "ca.crt"
      local store, admin = open(node.tls_url, { tls = { cafile = cafile } }),
        node:connect()
      assert(store:ping())
      trust "other.crt"
      admin:call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
      admin:close()
      repeat
        local ok, _, code = store:ping()
        assert.is_nil(ok)
      until code == "denied"
      store:close()
    end
  end)

  timed("certificates that are renewed on disk are used", function()
    local mutual = redis.start(made:server("server",
      { tls_auth_clients = "yes" }))
    local cert, key = made:path "now.crt", made:path "now.key"
    local function copy(name)
      for _, what in ipairs { "crt", "key" } do
        assert(uv.fs_copyfile(made:path(name .. "." .. what),
          made:path("new." .. what)))
        assert(uv.fs_rename(made:path("new." .. what),
          made:path("now." .. what)))
      end
    end
    copy "stranger"
    local store = open(mutual.tls_url,
      { tls = { cafile = made:path "ca.crt", cert = cert, key = key } })
    assert.are.equal("denied", select(3, store:ping()))
    copy "client"
    assert(store:ping())
    -- Half of a pair is no reason to stop.
    assert(uv.fs_copyfile(made:path "stranger.key", key))
    local admin = mutual:connect()
    admin:call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    admin:close()
    assert(store:ping())
    store:close()
    mutual:stop()
  end)
end)
