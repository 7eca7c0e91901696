-- redis+sentinel:// whose Sentinels have users, rights and passwords of their
-- own, and the options for that.
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local sentinel = require "spec.support.sentinel"
local server = require "spec.support.server"

describe("a Sentinel with users", function()
  local set

  setup(function()
    set = sentinel.start { replicas = 0, sentinels = 1, down_after = 30000 }
    local rule = server.read_file("docs/security.md")
      :match("\nACL SETUSER finder (on >secret [^\n]*)\n```")
    local words = {}
    for word in rule:gmatch("%S+") do words[#words + 1] = word end
    set.sentinels[1]:call("ACL", "SETUSER", "locker",
      (table.unpack or unpack)(words))
    set.sentinels[1]:call("ACL", "SETUSER", "poor", "on", ">secret", "-@all",
      "+auth", "+ping", "+sentinel|get-master-addr-by-name")
  end)

  teardown(function()
    set:stop()
  end)

  local function try(username, password)
    local store = assert(dlock.open { url = set.url,
      sentinel_username = username, sentinel_password = password })
    local lease, message, code = store:try_lock("k")
    if lease then assert(lease:release()) end
    store:close(1)
    return lease ~= nil, message, code
  end

  it("takes one with the rights that the documentation names", function()
    assert.is_true((try("locker", "secret")))
    local store = assert(dlock.open { url = set.url,
      sentinel_username = "locker", sentinel_password = "secret" })
    local lease = assert(store:lock("k", { ttl = 2 }))
    eventually("a subscription", 10, function()
      return store:ping() and set.sentinels[1]:call("CLIENT", "LIST")
        :find(" sub=1 [^\n]* user=locker ")
    end)
    assert(lease:release())
    store:close(1)
  end)

  it("may withhold the epoch", function()
    assert.is_true((try("poor", "secret")))
  end)

  -- It works all the same, but hears of a failover later.
  it("that may not be subscribed to is told of once", function()
    set.sentinels[1]:call("ACL", "SETUSER", "deaf", "on", ">secret", "-@all",
      "+auth", "+ping", "+subscribe", "resetchannels", "+sentinel|master",
      "+sentinel|get-master-addr-by-name")
    local events = {}
    local store = assert(dlock.open { url = set.url,
      sentinel_username = "deaf", sentinel_password = "secret",
      on_event = function(event)
        if event.kind == "sentinel" then
          events[#events + 1] = event.message
        end
      end })
    local lease = assert(store:lock("k", { ttl = 2 }))
    eventually("an event", 10, function()
      return store:ping() and #events > 0
    end)
    assert.is_truthy(events[1]:find("docs/security.md", 1, true), events[1])
    assert.is_truthy(events[1]:find("NOPERM", 1, true), events[1])
    local client = set.sentinels[1]:connect()
    local function connections()
      return tonumber((client:call("INFO", "stats")
        :match("connections_received:(%d+)")))
    end
    local before = connections()
    eventually("more attempts", 10, function()
      return store:ping() and connections() > before + 2
    end)
    client:close()
    assert.equal(1, #events)
    assert(lease:release())
    store:close(1)
  end)

  it("refuses a wrong password; the message names the option", function()
    for _, name in ipairs { "locker", "nobody" } do
      local ok, message, code = try(name, "hush")
      assert.is_false(ok)
      assert.equal("denied", code)
      assert.is_truthy(message:find("sentinel_password", 1, true), message)
      assert.is_nil(message:find("hush", 1, true))
    end
  end)

  it("is not given the password of Redis", function()
    local url = set.url:gsub("//", "//locker:secret@")
    local client = set.nodes[1]:connect()
    client:call("ACL", "SETUSER", "locker", "on", ">secret", "~*", "&*",
      "+@all")
    local store = assert(dlock.open(url))
    assert(store:try_lock("k"):release())
    store:close(1)
    client:call("ACL", "SETUSER", "locker", "resetpass")
    client:close()
    store = assert(dlock.open(url))
    local _, message, code = store:try_lock("k")
    assert.equal("denied", code)
    assert.is_nil(message:find("sentinel_password", 1, true), message)
    store:close(1)
  end)

  it("has its password read from a file, too", function()
    local dir = server.new_dir()
    server.write_file(dir .. "/password", "secret\n")
    local store = assert(dlock.open { url = set.url,
      sentinel_username = "locker",
      sentinel_password_file = dir .. "/password" })
    assert(store:ping())
    store:close(1)
    local none, message, code = dlock.open { url = set.url,
      sentinel_password_file = dir .. "/none" }
    server.remove_dir(dir)
    assert.is_nil(none)
    assert.equal("invalid", code)
    assert.is_truthy(message:find("sentinel_password_file", 1, true), message)
  end)
end)

describe("the options of redis+sentinel", function()
  it("are invalid with every other store", function()
    for _, url in ipairs { "redis://h", "zookeeper://h", "file:///tmp/x" } do
      for name, value in pairs { sentinel_username = "u",
          sentinel_password = "p", address_map = { ["a:1"] = "b:2" } } do
        local store, message, code = dlock.open { url = url, [name] = value }
        assert.is_nil(store)
        assert.equal("invalid", code)
        assert.is_truthy(message:find("'" .. name .. "'", 1, true), message)
      end
    end
  end)

  it("are checked", function()
    for _, bad in ipairs { { ["a:1"] = "b" }, { a = "b:1" }, { "a:1" },
        { ["a:1"] = 5 }, { ["a:1"] = "b:65536" }, { ["a:1"] = "b:0" },
        { ["a:99999"] = "b:1" } } do
      local store, message, code = dlock.open {
        url = "redis+sentinel://h/m", address_map = bad }
      assert.is_nil(store)
      assert.equal("invalid", code)
      assert.is_truthy(message:find("address_map", 1, true), message)
    end
    assert.is_false((pcall(dlock.open, { url = "redis+sentinel://h/m",
      address_map = "a:1" })))
  end)
end)
