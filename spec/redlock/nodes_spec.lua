-- Redlock's nodes: TLS, passwords, sockets, and lists that cannot be used.
local certificates = require "spec.support.certificates"
local dlock = require "dlock"
local loop = require "spec.support.loop"
local redis = require "spec.support.redis"
local server = require "spec.support.server"

local KEEPS = { appendonly = "yes", appendfsync = "always" }

describe("the nodes of a Redlock", function()
  local made, nodes, opened

  local function node(more)
    local config = {}
    for name, value in pairs(KEEPS) do config[name] = value end
    for name, value in pairs(more or {}) do config[name] = value end
    nodes[#nodes + 1] = redis.start(config)
    return nodes[#nodes]
  end

  local function open(opts)
    opts.node_timeout = 1
    opened[#opened + 1] = assert(dlock.open(opts))
    return opened[#opened]
  end

  setup(function() made = certificates.make() end)

  before_each(function() nodes, opened = {}, {} end)

  after_each(function()
    for _, store in ipairs(opened) do store:close(1) end
    for _, one in ipairs(nodes) do one:stop() end
  end)

  teardown(function() made:remove() end)

  local function works(store, other)
    local lease = assert(store:lock("k", { timeout = 20 }))
    assert.are.equal("busy", (select(3, other:try_lock "k")))
    local text = assert(lease:detach())
    lease = assert(other:attach(text))
    assert(lease:extend(10))
    assert(lease:release())
  end

  it("may all have TLS: redlocks://", function()
    local hosts = {}
    for i = 1, 3 do
      hosts[i] = "127.0.0.1:" .. node(made:server "server").tls_port
    end
    local url = "redlocks://" .. table.concat(hosts, ",")
    local tls = { cafile = made:path "ca.crt" }
    works(open { url = url, tls = tls }, open { url = url, tls = tls })
    local _, message, code = open { url = url,
      tls = { cafile = made:path "other.crt" } }:ping()
    assert.are.equal("denied", code, message)
  end)

  it("may be of different kinds: the option nodes", function()
    local urls = {
      "rediss://127.0.0.1:" .. node(made:server "server").tls_port,
      (node { requirepass = "pw" }.url:gsub("//", "//:pw@")),
      node().socket_url,
    }
    local function another(more)
      local opts = { nodes = urls, tls = { cafile = made:path "ca.crt" } }
      for name, value in pairs(more or {}) do opts[name] = value end
      return open(opts)
    end
    local store = another()
    assert.is_nil(tostring(store):find("pw@", 1, true))
    works(store, another { url = "redlock://" })
    local three = node()
    works(open { nodes = { urls[2], urls[3], three.url } },
      open { nodes = { urls[2], urls[3], three.url } })
  end)

  it("are 3 to 9, each once, single servers", function()
    for _, bad in ipairs {
      { "redis://a", "redis://b" },
      { "redis://a", "redis://b", "redis://a" },
      { "redis://a", "redis://b", "redis+sentinel://c/m" },
      { "redis://a", "redis://b", "file:///d" },
      { "redis://a", "redis://b", "c" },
      { "redis://a", "redis://b", 5 },
    } do
      local store, message, code = dlock.open { nodes = bad }
      assert.is_nil(store)
      assert.are.equal("invalid", code, message)
    end
    local _, message, code = dlock.open { url = "redis://h",
      nodes = { "redis://a", "redis://b", "redis://c" } }
    assert.are.equal("invalid", code, message)
    assert.has_error(function() dlock.open { nodes = "redis://a" } end)
  end)

  it("are the same ones in all programs", function()
    local hosts = {}
    for i = 1, 5 do hosts[i] = "127.0.0.1:" .. node().port end
    local five = open { url = "redlock://" .. table.concat(hosts, ",") }
    local three = open { url = "redlock://" .. table.concat(hosts, ",", 1, 3) }
    local function refuses(holder, other, count)
      local lease = assert(holder:lock("k", { timeout = 20 }))
      local function votes(n)
        loop.eventually(n .. " votes", 20, function()
          local held = 0
          for _, one in ipairs(nodes) do
            local client = one:connect()
            held = held + client:call("EXISTS", "dlock:k")
            client:close()
          end
          return held == n
        end)
      end
      votes(count)
      local _, message, code = other:lock("k", { timeout = 20 })
      assert.are.equal("invalid", code, message)
      assert(message:find(("lists %d servers"):format(count), 1, true), message)
      assert(lease:release())
      votes(0) -- a majority has let go before
    end
    refuses(five, three, 5)
    refuses(three, five, 3)
  end)

  it("are no nodes of a cluster", function()
    local hosts = { "127.0.0.1:" .. node().port }
    for i = 2, 3 do
      hosts[i] = "127.0.0.1:" .. node { ["cluster-enabled"] = "yes",
        ["cluster-port"] = server.free_port() }.port
    end
    local _, message, code = open {
      url = "redlock://" .. table.concat(hosts, ",") }:lock("k",
      { timeout = 20 })
    assert.are.equal("unsupported", code, message)
    assert(message:find("redis+cluster://", 1, true), message)
  end)

  it("are not replicas of each other, nor one server under two names",
  function()
    local one, two, three = node(), node(), node()
    local url = ("redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d"):format(
      one.port, two.port, three.port)
    local client = three:connect()
    client:call("REPLICAOF", "127.0.0.1", one.port)
    client:close()
    client = two:connect()
    client:call("REPLICAOF", "127.0.0.1", one.port)
    client:close()
    local _, message, code = open { url = url }:lock("k", { timeout = 3 })
    assert.are.equal("invalid", code, message)
    assert(message:find("it is a replica", 1, true), message)
    url = ("redlock://127.0.0.1:%d,localhost:%d,127.0.0.1:%d"):format(
      one.port, one.port, three.port)
    client = three:connect()
    client:call("REPLICAOF", "NO", "ONE")
    client:close()
    local store = open { url = url }
    loop.eventually("a double that is seen", 10, function()
      _, message, code = store:try_lock "k"
      return code == "invalid"
    end)
    assert(message:find("same server", 1, true), message)
  end)
end)
