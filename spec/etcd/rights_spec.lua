-- Who may use the etcd store: TLS with certificates of clients, users with
-- passwords, and what is said when it is refused.

local certificates = require "spec.support.certificates"
local common = require "spec.etcd.common"
local files = require "spec.support.files"
local etcd = require "spec.support.etcd"
local process = require "spec.support.process"
local redis = require "spec.support.redis"
local steady = require "spec.support.steady"
local uv = require "luv"

local key, open, refused = common.key, common.open, common.refused

describe("etcd with TLS", function()
  local made, server

  setup(function()
    made = certificates.make()
    server = etcd.start { tls = made }
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
    refused("denied", "wants a client certificate", tls "ca.crt")
    refused("denied", "its CA is not the server's", tls("ca.crt", "stranger"))
    refused("denied", "CA that is not trusted", tls("other.crt", "client"))
    local own = tls("ca.crt", "client")
    own.tls.key = tls("ca.crt", "stranger").tls.key
    refused("unavailable", "it is not that of tls.cert[^?]*$", own)
  end)

  it("is named to a client without it, and so is its absence", function()
    refused("unavailable", "if it wants TLS, use etcds://",
      { url = (server.url:gsub("etcds", "etcd")) })
    refused("unavailable", "TLS",
      { url = (common.url:gsub("etcd", "etcds")), tls = { verify = false } })
  end)
end)

describe("etcd with users", function()
  local server

  setup(function()
    server = etcd.start { arguments = { "--auth-token-ttl", "2" } }
    for _, words in ipairs {
      "user add root:secret", "user grant-role root root",
      "user add other:secret", "the page's", "auth enable" } do
      if words == "the page's" then
        words = files.read("docs/security.md")
          :match("\n```\n(etcdctl role .-)```"):gsub("etcdctl ", "")
      end
      for line in words:gmatch("[^\n]+") do
        local list = {}
        for word in line:gmatch("%S+") do list[#list + 1] = word end
        assert(etcd.ctl(server.url, (table.unpack or unpack)(list)))
      end
    end
  end)

  teardown(function() server:stop() end)

  local timed = steady(nil, common.clean_up)

  local function as(user, opts)
    local all = { url = server.url:gsub("//", "//" .. user .. "@") .. "/app" }
    for name, value in pairs(opts or {}) do all[name] = value end
    return all
  end

  timed("lets the user in whose role has the prefix, for all operations",
    function()
      local a, b, k = open(as "app:secret"), open(as "app:secret"), key()
      local lease = assert(a:lock(k, { min_hold = 0.1, value = "v" }))
      assert.are.equal("busy", select(3, b:try_lock(k)))
      assert.are.equal("v", b:inspect(k).holders[1].value)
      assert(lease:guard("PUT", "/app/dlock/data", "1", "DELETE",
        "/app/dlock/old"))
      assert.are.same({ k }, (b:list(k)))
      lease = assert(b:attach(assert(lease:detach())))
      assert.is_true(a:break_lock(k))
      assert.is_true(lease:wait_lost(60))
    end)

  timed("refuses others", function()
    refused("denied", "refuses access to /dlock", { url = server.url })
    refused("denied", "password is wrong", as "app:geheimnis")
    refused("denied", "no role", as "other:secret")
    local lease = assert(open(as "app:secret"):lock(key()))
    local _, message, code = lease:guard("PUT", "/elsewhere", "1")
    assert.are.equal("denied", code, message)
  end)

  timed("a token that runs out is asked for again", function()
    local store, k = open(as("app:secret", { session_timeout = 20 })), key()
    local lease = assert(store:lock(k))
    uv.sleep(3500)
    assert(lease:extend())
    assert(lease:release())
  end)

  timed("a password that changed is asked for", function()
    local words, n = { "wrong", "secret" }, 0
    local store = open { url = server.url .. "/app", username = "app",
      password = function()
        n = n + 1
        return words[math.min(n, 2)]
      end }
    assert.are.equal("denied", select(3, store:lock(key(), { timeout = 1 })))
    assert(store:lock(key(), { timeout = 5 })):release()
  end)

  local function root(...)
    return assert(etcd.ctl((server.url:gsub("//", "//root:secret@")), ...))
  end

  -- More than a session's time later each of them is held. wait_lost also asks
  -- the program for its password.
  local function stays(lease)
    local lost, why, code = lease:wait_lost(4.5)
    assert.are.equal("timeout", code, lost and why)
    assert.is_true(lease:held())
  end

  timed("a connection of before auth was enabled asks for a token", function()
    root("auth", "disable")
    local opts = as("app:secret", { session_timeout = 3 })
    local a, b, lease = open(opts), open(opts), nil
    local ok, why = pcall(function()
      lease = assert(a:lock(key()))
      assert(b:lock(key())):release() -- its connection has no token either
    end)
    assert(etcd.ctl(server.url, "auth", "enable"))
    assert(ok, why)
    assert(b:lock(key())):release()
    stays(lease)
    root("auth", "disable")
    assert(lease:extend())
    assert(etcd.ctl(server.url, "auth", "enable"))
    stays(lease)
    assert.is_true(lease:release())
  end)

  timed("a password that changed while a lock is held", function()
    local word, events = "secret", {}
    local store = open { url = server.url .. "/app", username = "app",
      session_timeout = 3, password = function() return word end,
      on_event = function(e) events[#events + 1] = e.kind end }
    local lease = assert(store:lock(key()))
    word = "changed"
    assert(etcd.ctl((server.url:gsub("//", "//root:secret@")), "user", "delete",
      "app"))
    root("user", "add", "app:changed")
    root("user", "grant-role", "app", "locks")
    local kept, message = pcall(stays, lease)
    word = "secret"
    root("user", "delete", "app")
    root("user", "add", "app:secret")
    root("user", "grant-role", "app", "locks")
    assert(kept, message)
    stays(lease)
    assert.is_true(lease:release())
    assert.are.equal("denied", table.concat(events, " "):match("denied"))
  end)

  -- How many the server was asked for.
  local function logins()
    local status, text = process.run { command = { "curl", "-s",
      (server.url:gsub("etcd:", "http:")) .. "/metrics" } }
    assert(status == 0, text)
    local sum = 0
    for count in text:gmatch('handled_total{[^}]*"Authenticate"[^}]*} (%d+)') do
      sum = sum + tonumber(count)
    end
    return sum
  end

  timed("a password that became wrong for good ends what is held in time",
  function()
    local two = server.url:gsub("//(.*)", "//%1,%1")
    local store = open { url = two .. "/app", username = "app",
      session_timeout = 6, password = "secret" }
    local lease = assert(store:lock(key()))
    root("user", "delete", "app")
    root("user", "add", "app:changed")
    root("user", "grant-role", "app", "locks")
    local before = logins()
    local lost = lease:wait_lost(10)
    local more = logins() - before
    assert.is_true(more <= 14, more) -- each costs the server 0.1 s
    local _, message, code = store:lock(key(), { timeout = 20 })
    root("user", "delete", "app")
    root("user", "add", "app:secret")
    root("user", "grant-role", "app", "locks")
    assert.is_true(lost)
    assert.are.equal("denied", code, message)
    assert.matches("password is wrong", message)
  end)

  it("a name is no harm where nobody asks for it", function()
    local url = common.url:gsub("//", "//app:secret@")
    assert(open { url = url }:lock(key())):release()
  end)
end)

describe("what is no etcd", function()
  after_each(common.clean_up)

  it("is named", function()
    local other = redis.start()
    refused("unavailable", "not an etcd server",
      { url = (other.url:gsub("redis", "etcd")) })
    other:stop()
    refused("unavailable", "onnection refused", { url = "etcd://127.0.0.1:1" })
    refused("unavailable", "cannot be resolved[^?]*$",
      { url = "etcd://a.invalid" })
  end)
end)
