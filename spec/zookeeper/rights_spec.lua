-- Who may do what with the nodes that dlock makes, asked of the server by a
-- client of nobody's. That a user with just the rights of docs/security.md can
-- do everything is the contract's: subject zookeeper-user.

local common = require "spec.zookeeper.common"
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local steady = require "spec.support.steady"
local zk = require "spec.support.zk"
local zk_client = require "spec.support.zk_client"

local URL = common.url
local key, open = common.key, common.open

describe("a ZooKeeper node", function()
  local timed = steady(nil, common.clean_up)

  -- The path in the URL, the prefix, the lock, a holder of it, and what that
  -- wrote.
  local function nodes_of(path, opts)
    opts.url = URL .. path
    local store = open(opts)
    local lease = assert(store:lock("k"))
    local holder = common.nodes(path .. "/dlock/k/")[1]
    assert(lease:guard("CREATE", "/data", "x"))
    return { path, path .. "/dlock", path .. "/dlock/k", holder,
      path .. "/data" }, lease
  end

  local function acl(path)
    return zk_client.acl(URL, path, 5)
  end

  timed("is its maker's alone, once there are credentials", function()
    for _, opts in ipairs { {}, { acl = "creator" } } do
      opts.username, opts.password = "ann", "secret"
      local all, lease = nodes_of("/" .. key(), opts)
      assert.are.equal(5, #all)
      for _, path in ipairs(all) do
        local who, message = acl(path)
        assert.is_nil(who, path)
        assert.are.equal("error -102", message) -- NoAuth
      end
      assert(lease:release())
    end
  end)

  timed("is everybody's without, or if they are told so", function()
    for _, opts in ipairs { {}, { acl = "open" },
        { acl = "open", username = "ann", password = "secret" } } do
      local where = "/" .. key()
      local all, lease = nodes_of(where, opts)
      for _, path in ipairs(all) do
        assert.are.equal("world:anyone:cdrwa", acl(path))
      end
      local other = open { url = URL .. where, username = "bob",
        password = "his", acl = "open" }
      assert.are.equal("busy", select(3, other:try_lock("k")))
      assert(other:break_lock("k"))
      lease:release()
    end
  end)

  local function refused(path, opts)
    opts.url = URL .. path
    local start = common.now()
    local _, message, code = open(opts):lock("k", { timeout = 3 })
    assert.are.equal("denied", code)
    assert.is_true(common.now() - start < 2)
    assert.is_nil(message:find("secret", 1, true), message)
    return message
  end

  timed("that is refused says so, and what to do", function()
    local path = "/" .. key()
    local lease = select(2, nodes_of(path,
      { username = "ann", password = "secret" }))
    local message = refused(path, {})
    assert.is_truthy(message:find("give its username", 1, true), message)
    message = refused(path, { username = "ann", password = "secret2" })
    assert.is_truthy(message:find("the same username and password", 1, true),
      message)
    assert(lease:release())
  end)

  timed("cannot be made without the right to create", function()
    local path = "/" .. key()
    assert(zk_client.create(URL, path, "world:anyone:r", 5))
    local message = refused(path, { username = "ann", password = "secret" })
    assert.is_truthy(message:find("the right to create", 1, true), message)
  end)

  it("is not made where the servers want credentials", function()
    local private = zk.start { config = {
      ["enforce.auth.enabled"] = true, ["enforce.auth.schemes"] = "digest" } }
    finally(function()
      common.close_stores()
      private:stop()
    end)
    local store = open { url = private.url }
    -- The server closes the connection behind its refusal, and where it has not
    -- read all that we sent, the reset may overtake the refusal.
    eventually("refused", 60, function()
      return select(3, store:lock("k", { timeout = 3 })) == "denied"
    end)
    store = open { url = private.url, username = "ann", password = "secret" }
    assert(assert(store:lock("k")):release())
  end)

  it("has no creator without credentials, and no SASL", function()
    local _, message, code = dlock.open { url = URL, acl = "creator" }
    assert.are.equal("invalid", code)
    assert.is_truthy(message:find("username", 1, true), message)
    _, message, code = dlock.open { url = URL, acl = "ann" }
    assert.are.equal("invalid", code)
    assert.is_truthy(message:find("creator, open", 1, true), message)
    _, message, code = dlock.open { url = URL, sasl = true }
    assert.are.equal("unsupported", code)
    assert.is_truthy(message:find("digest", 1, true), message)
    assert(dlock.open { url = URL, sasl = false }):close()
    _, message, code = dlock.open { url = "redis://h", acl = "creator" }
    assert.are.equal("invalid", code)
    assert.is_truthy(message:find("'acl' has no meaning", 1, true), message)
  end)
end)
