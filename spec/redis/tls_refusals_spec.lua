-- TLS with a server that is the wrong one, or does not want us: each of these
-- has a code, a reason, and what to do, in bounded time.

local certificates = require "spec.support.certificates"
local dlock = require "dlock"
local pages = require "spec.support.pages"
local process = require "spec.support.process"
local redis = require "spec.support.redis"
local refused = require "spec.support.refused"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local uv = require "luv"

local made, wants -- wants: a server that wants certificates of its clients

local function with_server(name, more, fn)
  local one = redis.start(made:server(name, more))
  local ok, problem = pcall(fn, one)
  one:stop()
  assert(ok, problem)
end

local function ca(more)
  local tls = { cafile = made:path "ca.crt" }
  for name, value in pairs(more or {}) do tls[name] = value end
  return tls
end

local function client(name, more)
  local tls = ca { cert = made:path(name .. ".crt"),
    key = made:path(name .. ".key") }
  for key, value in pairs(more or {}) do tls[key] = value end
  return tls
end

local function open(url, tls, more)
  local opts = { url = url, tls = tls, connect_timeout = 5, io_timeout = 5 }
  for name, value in pairs(more or {}) do opts[name] = value end
  return assert(dlock.open(opts))
end

local function fails(url, tls, code, pattern, more)
  local store = open(url, tls, more)
  for _, message in ipairs(refused(store, 20, code, pattern)) do
    assert.is_nil(message:find("sesame", 1, true))
  end
end

local function works(url, tls, more)
  local store = open(url, tls, more)
  local lease = assert(store:lock("k"))
  assert(lease:release())
  store:close()
end

describe("a TLS server that is not the right one:", function()
  setup(function()
    made = certificates.make()
    wants = redis.start(made:server("server", { tls_auth_clients = "yes" }))
  end)

  teardown(function()
    wants:stop()
    made:remove()
  end)

  local timed = steady(nil, process.close_all)

  it("its CA is not trusted", function()
    with_server("server", nil, function(one)
      works(one.tls_url, ca())
      fails(one.tls_url, { cafile = made:path "other.crt" }, "denied",
        "CA that is not trusted.*tls%.cafile %(dlock: %-%-ca%)$")
      -- Its certificate alone is as good as its CA's.
      fails(one.tls_url, { cafile = made:path "self.crt" }, "denied", "CA")
    end)
  end)

  it("the name is another one", function()
    with_server("named", nil, function(one)
      fails(one.tls_url, ca(), "denied",
        "not for 127%.0%.0%.1 but for redis%.test, %*%.wild%.test")
      local by_name = one.tls_url:gsub("127.0.0.1", "localhost")
      fails(by_name, ca(), "denied", "not for localhost")
      works(one.tls_url, ca { server_name = "redis.test" })
      works(one.tls_url, ca { server_name = "redis.test." })
      works(one.tls_url, ca { server_name = "a.wild.test" })
      fails(one.tls_url, ca { server_name = "b.a.wild.test" }, "denied", "for")
      fails(one.tls_url, ca { server_name = "127.0.0.1" }, "denied", "for")
    end)
    with_server("many", nil, function(one)
      fails(one.tls_url, ca(), "denied", "not for 127%.0%.0%.1 but for"
        .. " 2001:db8::7, 10%.0%.0%.7, redis%.test;")
    end)
    with_server("bare", nil, function(one) -- its common name does not count
      fails(one.tls_url, ca { server_name = "bare" }, "denied",
        "for nobody: .* make it anew with subjectAltName=DNS:bare$")
      fails(one.tls_url, ca(), "denied", "subjectAltName=IP:127%.0%.0%.1$")
    end)
  end)

  it("its time is over, or is to come", function()
    with_server("expired", nil, function(one)
      fails(one.tls_url, ca(), "denied", "expired %(%d%d%d%d%-.* UTC%).*clock")
    end)
    with_server("early", nil, function(one)
      fails(one.tls_url, ca(), "denied", "not valid yet %(from %d%d.*clock")
    end)
  end)

  it("a directory by hashes has its CA", function()
    local dir = made:path "hashes"
    assert(uv.fs_mkdir(dir, 448))
    local status, hash = process.run { command = { "openssl", "x509", "-hash",
      "-noout", "-in", made:path "ca.crt" } }
    assert.equal(0, status)
    local link = dir .. "/" .. hash:match "%x+" .. ".0"
    assert(uv.fs_symlink(made:path "ca.crt", link))
    with_server("server", nil, function(one)
      local stores = {}
      for i, path in ipairs { dir, made.dir .. ":" .. dir } do
        works(one.tls_url, { capath = path })
        stores[i] = open(one.tls_url, { capath = path })
        assert(stores[i]:ping())
      end
      assert(uv.fs_unlink(link)) -- it is not trusted any more
      local admin = one:connect()
      admin:call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
      admin:close()
      for _, store in ipairs(stores) do
        local message, code
        repeat
          local fine
          fine, message, code = store:ping()
          assert.is_nil(fine)
        until code ~= "unavailable"
        assert.equal("denied", code, message)
        store:close()
      end
    end)
  end)

  it("it signed itself", function()
    with_server("self", nil, function(one)
      fails(one.tls_url, ca(), "denied",
        "signed by itself.*tls%.cafile.*%-%-ca")
      works(one.tls_url, { cafile = made:path "self.crt" })
      works((one.tls_url:gsub("127.0.0.1", "localhost")),
        { cafile = made:path "self.crt" })
    end)
  end)

  it("an IPv6 address is in its certificate", function()
    with_server("server", { bind = "127.0.0.1 ::1" }, function(one)
      works((one.tls_url:gsub("127.0.0.1", "[::1]")), ca())
    end)
  end)

  for _, version in ipairs { "1.2", "1.3" } do
    it("it wants a certificate of ours, TLS " .. version, function()
      local protocol = { tls_auth_clients = "yes",
        tls_protocols = '"TLSv' .. version .. '"' }
      with_server("server", protocol, function(one)
        fails(one.tls_url, ca(), "denied",
          "wants a client certificate.*tls%.cert and tls%.key")
        fails(one.tls_url, client "stranger", "denied",
          "does not accept the certificate in tls%.cert")
        works(one.tls_url, client "client")
        works(one.tls_url, client("locked", { key_password = "sesame" }))
        local path = made:path "password"
        for _, ended in ipairs { "", "\n", "\r\nnot this\n" } do
          server.write_file(path, "sesame" .. ended)
          works(one.tls_url, client("locked", { key_password_file = path }))
        end
      end)
    end)
  end

  it("it has no version in common", function()
    with_server("server", { tls_protocols = '"TLSv1.2"' }, function(one)
      works(one.tls_url, ca())
      fails(one.tls_url, ca { min_version = "1.3" }, "denied",
        "no TLS version in common")
    end)
  end)

  it("it has no cipher in common", function()
    local old = { tls_protocols = '"TLSv1.2"',
      tls_ciphers = "ECDHE-ECDSA-AES256-GCM-SHA384" }
    with_server("server", old, function(one)
      fails(one.tls_url, ca { ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256" },
        "denied", "no cipher")
    end)
  end)

  -- A server that is no Redis, and its host and port: runs the script with
  -- `one` for each connection.
  local function listen(script, hangs_up_at)
    local port = server.free_port()
    local child = process.spawn { tested = false, args = { port, hangs_up_at },
      script = [[
        local uv = require "luv"
        local tcp = uv.new_tcp()
        tcp:bind("127.0.0.1", tonumber(arg[1]))
        tcp:listen(8, function()
          local one = uv.new_tcp()
          tcp:accept(one) ]] .. script .. [[
        end)
        print "ready"
        io.stdout:flush()
        uv.run() ]] }
    child:expect "^ready$"
    return child, "127.0.0.1:" .. port
  end

  it("what answers there is something else", function()
    local _, place = listen [[
      one:write("-ERR what is that?\r\n")
      one:read_start(function() end) ]]
    fails("rediss://" .. place, ca(), "invalid",
      "does not speak TLS; use the URL without the 's'")
  end)

  it("what answers there by TLS is no Redis", function()
    local port, log = server.free_port(), server.new_dir() .. "/log"
    local mirror = assert(server.spawn({ "openssl", "s_server", "-rev",
      "-accept", "127.0.0.1:" .. port, "-cert", made:path "server.crt",
      "-key", made:path "server.key" }, log, function(text)
      return text:find("ACCEPT", 1, true)
    end))
    fails("rediss://127.0.0.1:" .. port, ca(), "invalid",
      "what answers there is not a Redis server; check host and port$")
    mirror:kill()
  end)

  -- Says what it is told, and hangs up at what the pattern fits.
  local function strange(hangs_up_at)
    return listen([[
      one:read_start(function(_, bytes)
        if not bytes then return one:close() end
        local what = bytes:sub(1, 1) == "\22" and "hello"
          or bytes:match "^%a+" or "command"
        print(what)
        io.stdout:flush()
        if what:find(arg[2]) then one:close() end
      end) ]], hangs_up_at)
  end

  local function hints(url, tls, pattern)
    local store = open(url, tls, { connect_timeout = 0.5 })
    local _, message, code = store:ping()
    assert.are.equal("unavailable", code)
    assert.matches(pattern, message)
    store:close()
  end

  timed("the port speaks what the URL does not say", function()
    local child, place = strange "command"
    hints("rediss://" .. place, ca(),
      "does not answer the TLS handshake; is it a TLS port")
    child:expect "^hello$"
    hints((wants.url:gsub("^redis:", "rediss:")), ca(),
      "does not answer the TLS handshake; is it a TLS port")
    hints("redis://" .. place, nil,
      "first command; if it wants TLS, use rediss:// %(or")
    child:expect "^command$"
    for _, version in ipairs { "1.2", "1.3" } do
      with_server("server", { tls_protocols = '"TLSv' .. version .. '"' },
        function(one)
          hints((one.tls_url:gsub("^rediss:", "redis:")), nil,
            "first command; if it wants TLS, use rediss:// %(or")
        end)
    end
  end)

  it("a password is refused as without TLS", function()
    with_server("server", { requirepass = "pw" }, function(one)
      fails(one.tls_url, ca(), "denied", "password")
      fails(one.tls_url, ca(), "denied", "password", { password = "no" })
      works(one.tls_url, ca(), { password = "pw" })
    end)
  end)

  it("docs/security.md says how to reach the right one", function()
    local places = { ["/run/secrets/redis"] = made:path "password",
      ["/etc/ssl/redis-ca.crt"] = made:path "ca.crt",
      ["/etc/ssl/app.crt"] = made:path "client.crt",
      ["/etc/ssl/app.key"] = made:path "client.key" }
    server.write_file(made:path "password", "secret\n")
    local admin = wants:connect()
    admin:call("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
    admin:close()
    local block = table.concat(pages.blocks("docs/security.md")[1], "\n")
    local text = block:gsub('"(%S-)"', function(value)
      local place = places[value]
        or value:find "^rediss:" and wants.tls_url .. "/0"
      return place and ("%q"):format(place)
    end)
    local status, out, err = process.run {
      script = text .. "\nassert(store:lock 'k'):release() store:close()" }
    assert.are.equal("", err .. out)
    assert.are.equal(0, status)
  end)

  it("a file of ours cannot be used", function()
    local url, here = wants.tls_url, made:path ""
    local function written(name, text)
      local path = made:path(name)
      server.write_file(path, text)
      return path
    end
    local pipe = made:path "pipe" -- nobody ever writes to it
    assert(os.execute("mkfifo " .. pipe))
    for pattern, tls in pairs {
      ["tls%.cafile /nowhere cannot be read %(No such file"] =
        { cafile = "/nowhere" },
      ["tls%.cafile .* cannot be read %(it is not a file"] = { cafile = here },
      ["tls%.cafile /dev/zero cannot be read %(it is not a file"] =
        { cafile = "/dev/zero" },
      ["tls%.cafile .*pipe cannot be read %(it is not a file"] =
        { cafile = pipe },
      ["tls%.cafile .*no certificate"] = { cafile = made:path "ca.key" },
      ["tls%.capath /nowhere cannot be read %(No such file"] =
        { capath = "/nowhere" },
      ["tls%.capath .*ca%.crt cannot be read %(it is no directory"] =
        { capath = made:path "ca.crt" },
      ["tls%.capath /nowhere cannot be read"] =
        { capath = here .. ":/nowhere" },
      ["tls%.capath .*cannot be used: it is no directory"] = { capath = "" },
      ["tls%.cert .*no certificate"] = client("client",
        { cert = made:path "client.key" }),
      ["tls%.key .*no private key"] = client("client",
        { key = made:path "client.crt" }),
      ["tls%.key .*is not that of tls%.cert"] = client("client",
        { key = made:path "server.key" }),
      ["tls%.key .*is encrypted; give tls%.key_password"] = client "locked",
      ["tls%.key .*the key password does not open it"] =
        client("locked", { key_password = "nosesame" }),
      ["tls%.key_password_file /nowhere"] =
        client("locked", { key_password_file = "/nowhere" }),
      ["tls%.key_password_file .*line is empty"] =
        client("locked", { key_password_file = written("late", "\nsesame\n") }),
      ["tls%.key_password_file .*a NUL byte"] =
        client("locked", { key_password_file = written("nul", "sesame\0\n") }),
      ["tls%.key .*password does not open it"] = client("locked",
        { key_password_file = written("cr", "sesame\rnot this\n") }),
      ["tls%.key_password_file .*more than 4096 bytes"] = client("locked",
        { key_password_file = written("long", ("x"):rep(4097)) }),
      ["tls%.ciphers: OpenSSL knows none"] = ca { ciphers = "ROT13" },
      ["tls%.ciphersuites: OpenSSL does not know"] =
        ca { ciphersuites = "TLS_ROT13" },
    } do
      fails(url, tls, "invalid", pattern)
    end
  end)

  it("verify = false says so, and asks for no CA", function()
    local script = [[
      local dlock = require "dlock"
      local seen = {}
      local hears = arg[2] == "hears" and function(event)
        seen[#seen + 1] = event.kind .. " " .. event.message
      end or nil
      local store = assert(dlock.open { url = arg[1], on_event = hears,
        tls = { verify = false } })
      assert(assert(store:lock "k"):release())
      assert(store:ping())
      store:close()
      io.write(table.concat(seen, "\n")) ]]
    with_server("self", nil, function(one)
      local status, _, err =
        process.run { script = script, args = { one.tls_url } }
      assert.are.equal(0, status, err)
      assert.matches("^dlock: rediss://%S+: tls%.verify is false: [^\n]*\n$",
        err)
      local shown, out = err
      status, out, err =
        process.run { script = script, args = { one.tls_url, "hears" } }
      assert.are.equal(0, status, err)
      assert.are.equal("", err)
      assert.matches("^insecure rediss://%S+: tls%.verify is false: [^\n]*; "
        .. "use it for trials only\nconnect [^\n]*$", out)
      -- Whoever hears it hears what the others read.
      assert.equal("dlock: " .. out:match "insecure ([^\n]*\n)", shown)
    end)
  end)
end)

describe("the option tls", function()
  local function bad(tls, url)
    local _, message, code =
      dlock.open { url = url or "rediss://h", tls = tls }
    assert.are.equal("invalid", code)
    return message
  end

  it("tells on_event of every store that verify is false", function()
    for _, url in ipairs { "rediss://127.0.0.1:1",
      "rediss+sentinel://127.0.0.1:1/main", "rediss+cluster://127.0.0.1:1",
      "redlocks://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "etcds://127.0.0.1:1",
      "consuls://127.0.0.1:1", "postgress://127.0.0.1:1/db",
      "mysqls://127.0.0.1:1/db" } do
      local seen = {}
      local store = assert(dlock.open { url = url, io_timeout = 0.1,
        tls = { verify = false }, on_event = function(event)
          seen[#seen + 1] = event.kind
        end })
      assert.is_nil(store:ping())
      assert.equal("insecure", seen[1], url)
      assert.is_true(seen[2] ~= "insecure", url)
      store:close()
    end
  end)

  it("belongs to a URL with TLS", function()
    for _, url in ipairs { "redis://h", "valkey://h", "redis+unix:///s",
      "zookeeper://h", "file:///tmp/x" } do
      assert.matches("tls needs a URL with TLS", bad({}, url), 1, true)
    end
    assert(dlock.open { url = "valkeys://h", tls = {} }):close()
  end)

  it("has a table of its own options", function()
    assert.has_error(function()
      dlock.open { url = "rediss://h", tls = true }
    end)
    for name, value in pairs { ca = "x", cafile = 1, verify = "no",
      min_version = 1.2 } do
      local ok, problem =
        pcall(function()
          local store = dlock.open { url = "rediss://h",
            tls = { [name] = value } }
          return store
        end)
      assert.is_false(ok)
      assert.matches("'" .. name .. "'", problem, 1, true)
      assert.matches("the table tls", problem, 1, true)
      assert.matches("tls_refusals_spec", problem, 1, true)
    end
    assert.matches("tls.min_version", bad { min_version = "1.1" }, 1, true)
    assert.matches("tls.cafile", bad { cafile = "a\0b" }, 1, true)
    assert.matches("tls.cert", bad { key = "x" }, 1, true)
    -- OpenSSL takes it for any name that ends so.
    assert.matches("tls.server_name", bad { server_name = ".h" }, 1, true)
    assert.is_nil(bad { key_password = ("hush"):rep(300) }:find "hush")
  end)
end)
