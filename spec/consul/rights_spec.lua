-- Who may use the Consul store: ACL tokens, TLS with certificates of clients,
-- and what is said when it is refused.

local certificates = require "spec.support.certificates"
local common = require "spec.consul.common"
local consul = require "spec.support.consul"
local files = require "spec.support.files"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local servers = require "spec.support.server"
local steady = require "spec.support.steady"

local key, open, refused = common.key, common.open, common.refused

describe("Consul with TLS", function()
  local made, server

  setup(function()
    made = certificates.make()
    server = consul.start { tls = made }
  end)

  teardown(function()
    server:stop()
    made:remove()
  end)

  after_each(common.clean_up)

  local function tls(...)
    return made:client(server.url, ...)
  end

  it("serves a client with a certificate of its CA", function()
    local store, k = open(tls("ca.crt", "client")), key()
    local lease = assert(store:lock(k))
    assert(lease:extend())
    assert(lease:release())
  end)

  it("refuses others, and says what to give", function()
    refused("denied", "certificate", tls("other.crt", "client"))
    refused("denied", "certificate", tls("ca.crt"))
    refused("denied", "another",
      tls("ca.crt", "client", { server_name = "another.example" }))
    refused("denied", "key_password", tls("ca.crt", "locked"))
    refused("denied", "key_password",
      tls("ca.crt", "locked", { key_password = "wrong" }))
    assert(open(tls("ca.crt", "locked", { key_password = "sesame" }))
      :lock(key())):release()
    refused("unavailable", "HTTP",
      { url = (server.url:gsub("consuls", "consul")) })
    refused("unavailable", "without TLS",
      { url = (common.url:gsub("consul", "consuls")),
        tls = { cafile = made:path "ca.crt" } })
  end)
end)

describe("Consul with TLS on a terminal", function()
  it("never asks there for the password of a key", function()
    local made = certificates.make()
    local script = made:path "locked.lua"
    servers.write_file(script, ([[
      local store = assert(require("dlock").open { url = "consuls://%s",
        tls = { cafile = %q, cert = %q, key = %q } })
      print(select(2, store:lock("k", { timeout = 2 })))
    ]]):format(common.url:match "//(.*)", made:path "ca.crt",
      made:path "locked.crt", made:path "locked.key"))
    local p = process.spawn { command = { "script", "-qfec", "exec "
      .. process.lua_in_shell .. " " .. script, "/dev/null" } }
    p:expect "denied:.*key_password"
    p:wait()
    made:remove()
  end)
end)

describe("Consul with ACL tokens", function()
  local server
  local function uuid(digit)
    return (("8-4-4-4-12"):gsub("%d+", function(n) return digit:rep(n) end))
  end

  local ROOT, APP, LENT = uuid "1", uuid "2", uuid "3"

  local function give(name, secret)
    assert(consul.get(server.url, "/v1/acl/token",
      ('{"AccessorID":"%s","SecretID":"%s","Policies":[{"Name":"%s"}]}')
        :format(secret, secret, name), ROOT))
  end

  local function policy(name, secret, rules)
    assert(consul.get(server.url, "/v1/acl/policy", ('{"Name":"%s","Rules":%q}')
      :format(name, rules):gsub("\\\n", "\\n"), ROOT))
    give(name, secret)
  end

  local function start()
    server = consul.start { conf = [[
      acl {
        enabled = true
        default_policy = "deny"
        tokens { master = "]] .. ROOT .. [[" agent = "]] .. ROOT .. [[" }
      }
    ]] }
    -- What docs/security.md says.
    local rules = files.read("docs/security.md"):match("```hcl\n(.-)```")
    policy("locks", APP, rules)
  end

  local function stop()
    common.clean_up()
    server:stop()
  end

  local timed = steady(start, stop)

  local function as(token, opts)
    local all = { url = (server.url:gsub("//", "//:" .. token .. "@"))
      .. "/app" }
    for name, value in pairs(opts or {}) do all[name] = value end
    return all
  end

  timed("serves a token with the rights of the page, and refuses others",
    function()
      local a, b, k = open(as(APP)), open(as(APP)), key()
      local lease = assert(a:lock(k, { value = "v" }))
      assert.are.equal("busy", select(3, b:try_lock(k)))
      assert.are.equal("v", b:inspect(k).holders[1].value)
      assert(lease:guard("PUT", "app/dlock/data", "1", "DELETE",
        "app/dlock/old"))
      assert.are.same({ k }, (b:list(k)))
      assert.is_true(a:break_lock(k))
      assert.is_true(lease:wait_lost(20))
      refused("denied", "refuses access to /dlock", { url = server.url })
      refused("denied", "token", as((APP:gsub("2", "3"))))
      refused("denied", "may not write",
        as(APP, { prefix = "/elsewhere" }))
      lease = assert(a:lock(k))
      local _, message, code = lease:guard("PUT", "elsewhere", "1")
      assert.are.equal("denied", code, message)
      assert(lease:release())
    end)

  timed("asks for a token that changed", function()
    local words, n = { (APP:gsub("2", "4")), APP }, 0
    local store = open { url = server.url .. "/app",
      password = function()
        n = n + 1
        return words[math.min(n, 2)]
      end }
    assert.are.equal("denied", select(3, store:lock(key(), { timeout = 1 })))
    assert(store:lock(key(), { timeout = 20 })):release()
  end)

  -- Another token with the rights of the page; and that one's end.
  local function lend()
    give("locks", LENT)
  end

  local function take_back()
    local command = consul.command(server.url:gsub("//", "//:" .. ROOT .. "@"),
      "acl", "token", "delete", "-id", LENT)
    local status, _, err = process.run { command = command, timeout = 30 }
    assert(status == 0, err)
  end

  local function write(path, token)
    servers.write_file(path .. ".new", token .. "\n")
    assert(os.rename(path .. ".new", path))
  end

  timed("goes on with the token that a file has by now", function()
    lend()
    local path, k, seen = servers.new_dir() .. "/token", key(), {}
    write(path, LENT)
    local store = open { url = server.url .. "/app", password_file = path,
      on_event = function(event) seen[#seen + 1] = event.kind end }
    local lease = assert(store:lock(k))
    local waits = process.spawn { args = { server.url .. "/app", path, k },
      script = [[
        local store = assert(require("dlock").open { url = arg[1],
          password_file = arg[2], session_timeout = 4 })
        local lease, message = store:lock(arg[3], { timeout = 60 })
        print(lease and "holds" or message)
      ]] }
    common.eventually(store, "it waits", function()
      return #consul.keys(server.url, "app/dlock/" .. k .. "/", ROOT) == 2
    end)
    write(path, APP)
    take_back()
    -- Before any proof: what is refused was not done.
    assert(lease:guard("PUT", "app/dlock/" .. k, "1"))
    assert(lease:guard("DELETE", "app/dlock/" .. k))
    assert.is_nil((lease:wait_lost(6)))
    assert.is_true(lease:held())
    assert(lease:release())
    waits:expect "^holds$"
    assert.are.same({ "connect" }, seen)
  end)

  local function cut(between, store, seen)
    seen.disconnect = nil
    between:refuse(true)
    between:close()
    common.eventually(store, "the connection is lost", function()
      return seen.disconnect
    end)
    between:refuse(false)
  end

  timed("a token that comes back in time saves what is held", function()
    lend()
    local between, k, seen = proxy.start(server.url), key(), {}
    local store = open { url = between.url:gsub("//", "//:" .. LENT .. "@")
      .. "/app", session_timeout = 8, io_timeout = 1,
      on_event = function(event) seen[event.kind] = true end }
    local lease = assert(store:lock(k))
    take_back()
    cut(between, store, seen)
    assert.is_nil((lease:wait_lost(0.5)))
    local _, message, code = store:try_lock(key())
    assert.are.equal("unavailable", code, message)
    assert.matches("ACL not found; was the token deleted", message, 1, true)
    lend()
    assert.is_nil((lease:wait_lost(8)))
    take_back()
    cut(between, store, seen)
    assert.is_true(lease:wait_lost(10))
    assert.are.equal("denied", select(3, store:lock(k, { timeout = 60 })))
    common.clean_up()
    between:stop()
  end)

  for _, outage in ipairs { false, true } do
    timed("asks for a token while a lease is held"
      .. (outage and ", and its connection lost" or ""), function()
      lend()
      local between = proxy.start(server.url)
      local words, n, seen = { LENT, APP }, 0, { denied = 0 }
      local store = open { url = between.url .. "/app",
        on_event = function(event)
          seen[event.kind] = (seen[event.kind] or 0) + 1
        end,
        password = function()
          n = n + 1
          return words[math.min(n, 2)]
        end }
      local lease = assert(store:lock(key()))
      take_back()
      if outage then cut(between, store, seen) end
      for _ = 1, 12 do assert.is_nil((lease:wait_lost(0.5))) end
      assert.is_true(lease:held())
      assert.are.same({ 2, 1 }, { n, seen.denied })
      assert(lease:release())
      common.clean_up()
      between:stop()
    end)
  end
end)

describe("what is no Consul, or not to be had,", function()
  after_each(common.clean_up)

  it("is named", function()
    local other = redis.start()
    refused("unavailable", "is no agent",
      { url = (other.url:gsub("redis", "consul")) })
    other:stop()
    refused("unavailable", "onnection refused",
      { url = "consul://127.0.0.1:1" })
    refused("unavailable", "resolve", { url = "consul://a.invalid" })
  end)

  it("is a list of hosts, which the message says of this store", function()
    for _, name in ipairs { "consul", "mysql" } do
      local _, message = require("dlock").open(name .. "://a,b/c")
      assert.matches("the " .. name .. " store takes one host", message)
    end
  end)

  it("is told at once", function()
    local dlock = require "dlock"
    for code, list in pairs { invalid = { { session_timeout = 0.5 },
        { session_timeout = 61 }, { username = "u", password = "p" },
        { prefix = "/a b" }, { prefix = "x" }, { prefix = "/a/../b" },
        { url = "consul://a,b" }, { url = "consul://a/b%25" },
        { url = "consul://:a%0D%0Ab@a" }, { url = "consul://:a%0A@a" } },
      unsupported = { { url = "consuls://a", tls = { cert = "c",
        key_password_file = "f" } } } } do
      for _, opts in ipairs(list) do
        opts.url = opts.url or common.url
        local store, message, was = dlock.open(opts)
        assert.is_nil(store)
        assert.are.equal(code, was, message)
      end
    end
  end)
end)
