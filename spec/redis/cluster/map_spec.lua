-- redis+cluster://: which nodes are found, and what is said when none is. What
-- nodes say is made up here, by servers that answer as they are told.
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local fake_server = require "spec.support.fake_server"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local cluster = require "spec.support.cluster"

-- (Not by format(), which ends a text at a byte 0 in Lua 5.1.)
local function bulk(text)
  return "$" .. #tostring(text) .. "\r\n" .. tostring(text) .. "\r\n"
end

local INFO = bulk("redis_version:7.0.0\r\nredis_mode:cluster\r\n")

-- CLUSTER SLOTS: all of them on one node.
local function all_at(host, port, id)
  return ("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n%s:%d\r\n%s"):format(
    host and bulk(host) or "$-1\r\n", port, bulk((id or "a"):rep(40)))
end

local function node(rules)
  rules["INFO SERVER"] = rules["INFO SERVER"] or INFO
  return fake_server.start(rules)
end

describe("of the nodes of a cluster,", function()
  local set, opened

  setup(function() set = cluster.start { primaries = 1, replicas = 0 } end)
  teardown(function() set:stop() end)
  before_each(function() opened = {} end)
  after_each(function()
    for i = #opened, 1, -1 do
      local one = opened[i]
      one[one.stop and "stop" or "close"](one, 1)
    end
  end)

  local function later(one)
    opened[#opened + 1] = one
    return one
  end

  local function open(hosts, opts)
    local all = { url = "redis+cluster://" .. hosts, timeout = 5 }
    for name, value in pairs(opts or {}) do all[name] = value end
    return later(assert(dlock.open(all)))
  end

  local function at(one) return "127.0.0.1:" .. one.port end

  local function fails(hosts, code, text, opts)
    local ok, message, said = open(hosts, opts):ping()
    assert.is_nil(ok)
    assert.equal(code, said, message)
    assert.truthy(message:find(text, 1, true), message)
  end

  it("one suffices, also behind some that are not there", function()
    local gone = server.free_port()
    local store = open(("127.0.0.1:%d,%s"):format(gone, at(set.nodes[1])))
    assert.is_number(store:ping())
    assert(store:lock("one")):release()
  end)

  it("without any the reason is told", function()
    fails("127.0.0.1:" .. server.free_port(), "unavailable", "refused")
    local alone = later(redis.start {})
    fails(at(alone), "invalid", "no node of a cluster")
    fails(at(set.nodes[1]), "denied", "password",
      { password = "wrong", username = "nobody" })
    local store = later(assert(dlock.open(set.nodes[1].url)))
    local _, message, code = store:ping()
    assert.equal("unsupported", code)
    assert.truthy(message:find("redis+cluster://", 1, true), message)
  end)

  it("names are used as they can be reached: none, or mapped", function()
    local port = set.nodes[1].port
    for _, host in ipairs { "", false } do
      local said = later(node { ["CLUSTER SLOTS"] = all_at(host, port) })
      assert.is_number(open(at(said)):ping())
    end
    local said = later(node { ["CLUSTER SLOTS"] = all_at("inside", port) })
    assert.is_number(open(at(said), { address_map =
      { ["inside:" .. port] = at(set.nodes[1]) } }):ping())
    local unknown = later(node { ["CLUSTER SLOTS"] = all_at("?", port) })
    fails(at(unknown), "unavailable", "names no node with slots",
      { io_timeout = 0.5 })
  end)

  it("two that send us to each other are not asked for ever", function()
    local a, b
    local rules = { ["CLUSTER SLOTS"] = "*0\r\n" }
    a, b = later(node(rules)), later(node(rules))
    local function send(one, to)
      one:rules { ["INFO SERVER"] = INFO,
        ["CLUSTER SLOTS"] = all_at("127.0.0.1", a.port),
        EVALSHA = ("-MOVED 1 127.0.0.1:%d\r\n"):format(to.port) }
    end
    send(a, b)
    send(b, a)
    local store = open(at(a), { io_timeout = 2 })
    -- An attempt may end with a question under way, and then has no answer.
    eventually("the redirect is told", 30, function()
      local ok, message, code = store:try_lock("k")
      assert.is_nil(ok)
      assert.equal("unavailable", code, message)
      return message:find("MOVED", 1, true)
    end)
  end)

  it("one that is down makes others wait, without new connections", function()
    local one = set.nodes[1]
    local store = open(at(one), { timeout = 1 })
    assert(store:ping())
    local function connections()
      return tonumber(one:call("INFO", "stats")
        :match("total_connections_received:(%d+)"))
    end
    one:call("CLUSTER", "DELSLOTS", 5)
    local before = connections()
    local ok, message, code = store:lock("k")
    assert.is_nil(ok)
    assert.equal("unavailable", code, message)
    assert.is_true(connections() - before <= 3, "connected again and again")
    one:call("CLUSTER", "ADDSLOTS", 5)
    eventually("the cluster serves again", 60, function()
      return store:try_lock("k")
    end)
  end)

  it("the map is asked for once for many keys", function()
    local one = set.nodes[1]
    one:call("CONFIG", "RESETSTAT")
    local store = open(at(one))
    for i = 1, 200 do assert(store:lock("many" .. i)):release() end
    local client = assert(one:connect())
    assert.equal(1, client:command_counts()["cluster|slots"])
    client:close()
  end)
end)
