-- Sentinels and servers that are all spoken to with TLS, and speak it among
-- themselves.

local certificates = require "spec.support.certificates"
local dlock = require "dlock"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local steady = require "spec.support.steady"

local made, primary, replica, sentinel

local function tls_only(more)
  local settings = made:server("server", { tls_replication = "yes",
    ["repl-diskless-sync-delay"] = 0 })
  for name, value in pairs(more or {}) do settings[name] = value end
  return settings
end

local function start_sentinel()
  local one = { dir = server.new_dir() }
  one.server = server.retry(function()
    one.port, one.tls_port = server.free_port(), server.free_port()
    server.write_file(one.dir .. "/sentinel.conf", table.concat({
      "port " .. one.port, "tls-port " .. one.tls_port, "bind 127.0.0.1",
      "dir " .. one.dir, "tls-replication yes", "tls-auth-clients no",
      "tls-cert-file " .. made:path "server.crt",
      "tls-key-file " .. made:path "server.key",
      "tls-ca-cert-file " .. made:path "ca.crt",
      "sentinel monitor mymaster 127.0.0.1 " .. primary.tls_port .. " 1",
      "sentinel failover-timeout mymaster 1500",
    }, "\n") .. "\n")
    return server.spawn({ "redis-server", one.dir .. "/sentinel.conf",
      "--sentinel" }, one.dir .. "/log", function(log)
      return log:find("Sentinel ID is", 1, true)
    end)
  end)
  return one
end

local function ask(...)
  local client = assert(redis.connect("redis://127.0.0.1:" .. sentinel.port))
  local reply = client:pcall(...)
  client:close()
  return reply
end

local function open(port, more)
  local opts = { tls = { cafile = made:path "ca.crt" }, io_timeout = 5,
    url = ("rediss+sentinel://127.0.0.1:%d/mymaster"):format(port) }
  for name, value in pairs(more or {}) do opts[name] = value end
  return assert(dlock.open(opts))
end

describe("TLS with Sentinels:", function()
  setup(function()
    made = certificates.make()
    primary = redis.start(tls_only())
    replica = redis.start(tls_only {
      replicaof = "127.0.0.1 " .. primary.tls_port })
    sentinel = start_sentinel()
    ask("SENTINEL", "DEBUG", "info-period", "100", "ping-period", "200")
    loop.eventually("a replica that the Sentinel knows", 20, function()
      return #(ask("SENTINEL", "REPLICAS", "mymaster") or {}) == 1
    end)
  end)

  teardown(function()
    sentinel.server:kill()
    server.remove_dir(sentinel.dir)
    replica:stop()
    primary:stop()
    made:remove()
  end)

  local timed = steady(nil, process.close_all)

  -- What is wrong is said of the server where it is, to the caller and in the
  -- event.
  timed("both sides are verified", function()
    local heard = {}
    local store = open(sentinel.tls_port, {
      tls = { cafile = made:path "other.crt" },
      on_event = function(event) heard[#heard + 1] = event.message end })
    local _, message, code = store:ping()
    assert.are.equal("denied", code)
    local pattern = "/mymaster: the Sentinel 127%.0%.0%.1:"
      .. sentinel.tls_port .. ": the server's certificate.*not trusted"
    assert.matches(pattern, message)
    assert.matches(pattern, heard[1])
    store:close()
    local admin = primary:connect()
    for _, wanted in ipairs { "yes", "no" } do
      admin:call("CONFIG", "SET", "tls-auth-clients", wanted)
      store = open(sentinel.tls_port)
      local fine
      fine, message = store:ping()
      if wanted == "yes" then
        assert.matches("/mymaster: the primary 127%.0%.0%.1:"
          .. primary.tls_port .. ": .*wants a client certificate", message)
      else
        assert(fine, message)
      end
      store:close()
    end
    admin:close()
  end)

  local function hints(url, pattern)
    local tls = url:find "^rediss" and { cafile = made:path "ca.crt" } or nil
    local store = assert(dlock.open { url = url, tls = tls,
      connect_timeout = 1, io_timeout = 30 })
    local _, message, code = store:ping()
    assert.are.equal("unavailable", code, message)
    assert.matches(pattern, message)
    store:close()
  end

  local PLAIN = "does not answer the TLS handshake; is it a TLS port"
  local TLS = "if it wants TLS, use rediss:// %(or rediss%+sentinel://"

  timed("a Sentinel that speaks what the URL does not say", function()
    local url = "://127.0.0.1:%d/mymaster"
    hints(("rediss+sentinel" .. url):format(sentinel.port),
      "no Sentinel answers %(.*" .. PLAIN)
    hints(("redis+sentinel" .. url):format(sentinel.tls_port),
      "no Sentinel answers %(.*" .. TLS)
  end)

  timed("a primary that speaks what its Sentinel does not", function()
    local url = "://127.0.0.1:%d/mymaster"
    hints(("redis+sentinel" .. url):format(sentinel.port),
      "the primary 127%.0%.0%.1:" .. primary.tls_port .. ":.*" .. TLS)
    assert.are.equal("OK", ask("SENTINEL", "MONITOR", "plain", "127.0.0.1",
      tostring(primary.port), "1"))
    hints(("rediss+sentinel" .. url):format(sentinel.tls_port)
      :gsub("mymaster", "plain"),
      "the primary 127%.0%.0%.1:" .. primary.port .. ":.*" .. PLAIN)
    assert.are.equal("OK", ask("SENTINEL", "REMOVE", "plain"))
  end)

  timed("a lock goes on after a failover", function()
    local store = open(sentinel.tls_port)
    local lease = assert(store:lock("over", { ttl = 30 }))
    local here = primary:connect()
    here:call("SET", "behind", "x") -- without a write of its own WAIT is idle
    assert.are.equal(1, here:call("WAIT", 1, 5000))
    here:close()
    -- It is asked for until it is done: one that takes long is given up.
    loop.eventually("another primary", 40, function()
      local found = ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")
      if tonumber(found[2]) ~= replica.tls_port then
        ask("SENTINEL", "FAILOVER", "mymaster")
        return false
      end
      local client = replica:connect()
      local text = client and client:call("INFO", "replication") or ""
      if client then client:close() end
      return text:find("role:master", 1, true)
    end)
    assert(store:ping(10))
    assert(lease:extend(30))
    assert.is_true(lease:held())
    assert(lease:release())
    store:close()
  end)
end)
