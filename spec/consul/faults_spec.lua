-- The Consul store when the network, a server or the session fail.

local certificates = require "spec.support.certificates"
local common = require "spec.consul.common"
local consul = require "spec.support.consul"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local steady = require "spec.support.steady"
local uv = require "luv"

local key, open, now = common.key, common.open, common.now
local between

local function through(opts)
  between = between or proxy.start(common.url)
  local all = { url = between.url }
  for name, value in pairs(opts or {}) do all[name] = value end
  return open(all)
end

local function session_of(k)
  local seen = consul.get(common.url, "/v1/kv/dlock/" .. k .. "/?recurse")
  return assert(seen:match('"Session": *"([^"]+)"'), seen)
end

describe("with Consul in trouble,", function()
  local function tear_down()
    common.clean_up()
    if between then between:stop() end
    between = nil
  end

  local timed = steady(nil, tear_down)

  -- The second request has one more connection opened.
  it("a new connection crosses a cut, behind which the token is read again",
    function()
      local made, k, got, cut = certificates.make(), key(), 0, false
      local server = consul.start { tls = made }
      between = proxy.start(server.url)
      local opts = made:client(between.url, "ca.crt", "client")
      opts.host, opts.io_timeout = "luv", 1
      opts.on_event = function(event)
        cut = cut or event.kind == "disconnect"
      end
      local store = open(opts)
      local function ask(name)
        coroutine.wrap(function()
          assert(store:lock(k .. name, { timeout = 30 })):release()
          got = got + 1
        end)()
      end
      ask "a"
      loop.wait(20, function() return got == 1 end)
      between:hold("both")
      ask "b"
      loop.look(0.5, function() return cut end)
      ask "c"
      loop.wait(20, function() return cut end)
      between:release()
      loop.wait(40, function() return got == 3 end)
      assert.equal(3, got)
      common.clean_up()
      server:stop()
      made:remove()
    end)

  it("a guarded write that is too large is invalid", function()
    local lease = assert(open():lock(key()))
    for _, size in ipairs { 600000, 3000000 } do
      local _, message, code = lease:guard("PUT", "x", ("x"):rep(size))
      assert.are.equal("invalid", code, message)
      assert.matches("too large", message)
    end
    assert(lease:guard("DELETE", "x"))
    assert(lease:release())
  end)

  it("an epoch that is written late bars older creates only", function()
    local store, k = through(), key()
    local lease = assert(store:lock(k .. "held"))
    local session = session_of(k .. "held")
    between:close()
    assert(lease:extend())
    assert(store:lock(k)):release()
    assert(consul.get(common.url, "/v1/kv/dlock/,-" .. session .. "?acquire="
      .. session, "late"))
    assert(store:lock(k)):release()
    assert.is_true(lease:held())
    assert(lease:release())
    store:close()
    assert.is_nil(consul.get(common.url, "/v1/kv/dlock/,-" .. session))
  end)

  it("the epoch of a session that died goes with another's next", function()
    local function epochs()
      return consul.keys(common.url, "swept/,-")
    end
    -- A store with an epoch.
    local function cut()
      local store, k = through { prefix = "/swept" }, key()
      assert(store:ping())
      between:cut_after("swept/" .. k .. "/x-")
      assert(store:lock(k, { timeout = 20 })):release()
      return store
    end
    local dead = cut()
    local id = epochs()[1]:match(",%-(.*)")
    assert(consul.get(common.url, "/v1/session/destroy/" .. id, ""))
    local other = cut()
    common.eventually(other, "one epoch, and not that one", function()
      local found = epochs()
      return #found == 1 and not found[1]:find(id, 1, true)
    end)
    assert(dead:lock(key(), { timeout = 20 })):release()
  end)

  -- The holder may believe in itself for one TTL more: so long the next waits.
  timed("a session that an admin ends is lost, and lock-delay bars the key",
    function()
      local store, other, k = through { session_timeout = 3 }, open(), key()
      local lease = assert(store:lock(k))
      between:hold("both")
      between:refuse(true)
      assert(consul.get(common.url, "/v1/session/destroy/" .. session_of(k),
        ""))
      local start = now()
      local mutex = other:mutex(k)
      assert.is_true(mutex:locked())
      assert.are.equal("busy", select(3, mutex:try_acquire()))
      local next_one = assert(mutex:acquire { timeout = 60 })
      assert.is_true(now() - start > 2.9, now() - start)
      assert.is_false(lease:held())
      assert(next_one:release())
      assert.are.equal(0, #common.nodes(k))
    end)

  it("a guarded write finds the session ended, and says so", function()
    local k = key()
    local lease = assert(open():lock(k))
    assert(consul.get(common.url, "/v1/session/destroy/" .. session_of(k), ""))
    local _, message, code = lease:guard("PUT", "guarded/" .. k, "1")
    assert.are.equal("lost", code)
    assert.matches("deleted, or taken from its session", message)
  end)

  timed("waits of a session that ends go on in the next one", function()
    local store, other, k = open { session_timeout = 2 }, open(), key()
    local lease = assert(store:lock(k))
    local session = session_of(k)
    assert(consul.get(common.url, "/v1/session/destroy/" .. session, ""))
    assert.is_true(lease:wait_lost(10))
    assert(store:lock(k, { timeout = 60 })):release()
    assert(other:lock(k, { timeout = 60 })):release()
  end)

  timed("a killed holder's key is buried by the next one, readers' too",
    function()
      local store, k = open(), key()
      local child = process.spawn { args = { common.url, k }, script = [[
        local store = assert(require("dlock").open { url = arg[1],
          session_timeout = 2 })
        local rw = store:rwlock(arg[2])
        local a, b = assert(rw:read():acquire()), assert(rw:read():acquire())
        print "in"
        io.read()
      ]] }
      child:expect "^in$"
      child:kill()
      assert.are.equal("timeout", select(3, store:lock(k, { timeout = 0.5 })))
      assert.are.equal(2, #common.nodes(k))
      assert(store:lock(k, { timeout = 60 })):release()
      assert.are.equal(0, #common.nodes(k))
    end)

  timed("a key of min_hold or once_per is gone for a list after its end",
    function()
      local store, k = open(), key()
      assert(store:lock(k, { min_hold = 0.5 })):release()
      assert.is_true(store:once_per(k .. "o", 0.5, function()
        return true
      end))
      assert.are.equal(1, #common.nodes(k))
      assert.are.equal(1, #common.nodes(k .. "o"))
      store:close()
      local other = open()
      assert.are.same({ k, k .. "o" }, (other:list(k)))
      common.eventually(other, "it is in no list", function()
        return #other:list(k) == 0
      end, 20)
      assert.are.equal(0, #common.nodes(k))
      assert.are.equal(0, #common.nodes(k .. "o"))
    end)

  it("several writes are guarded together", function()
    local store, k = open(), key()
    local lease = assert(store:lock(k))
    local a, b = "guarded/a" .. k, "guarded/b" .. k
    assert.is_true(lease:guard("PUT", a, "\0\1ab", "PUT", b, "2") > lease.fence)
    assert.are.equal(2, #consul.keys(common.url, "guarded/"))
    assert.are.equal("2", consul.get(common.url, "/v1/kv/" .. b .. "?raw"))
    local many = {}
    for i = 1, 64 do
      many[2 * i - 1], many[2 * i] = "DELETE", a .. i
    end
    for _, wrong in ipairs { many, { "PUT", a }, { "SET", a, "1" },
        { "DELETE", "\255" } } do
      assert.are.equal("invalid",
        select(3, lease:guard((table.unpack or unpack)(wrong))))
    end
    assert.is_true(lease:guard("DELETE", a, "DELETE", b))
    assert.are.equal(0, #consul.keys(common.url, "guarded/"))
    assert(lease:release())
    assert.are.equal("lost", select(3, lease:guard("PUT", a, "3")))
  end)

  it("keys are written so that the newest servers take them", function()
    local store, k = open(), "a:%/.." .. key()
    for _, name in ipairs { k, k .. "..", ".." } do
      local lease = assert(store:lock(name))
      local found = consul.keys(common.url, "dlock/")
      assert.is_true(#found > 0)
      for _, one in ipairs(found) do
        assert.is_nil(one:find("[^%w,%-_./]"), one)
        assert.is_nil(one:find("../", 1, true), one)
      end
      assert.are.same({ name }, (store:list(name)))
      assert.are.equal("busy", select(3, open():try_lock(name)))
      assert(lease:release())
    end
    local lease = assert(store:lock(k))
    local shown = k:gsub("[:%%/]", function(mark)
      return (",%02X"):format(mark:byte())
    end)
    assert.are.equal(1, #common.nodes(shown))
    assert(lease:release())
  end)

  -- Of semaphores of `consul lock`, for one: above 2^63.
  it("other programs' keys are no harm", function()
    local store, k = open(), key()
    local foreign = "/v1/kv/dlock/" .. k .. "/other"
    assert(consul.get(common.url, foreign .. "?flags=16210313421097356768",
      "x"))
    assert.is_false(store:mutex(k):locked())
    local lease = assert(store:lock(k))
    assert.are.equal("busy", select(3, open():try_lock(k)))
    assert(lease:release())
    assert.are.equal(1, #common.nodes(k))
  end)

  timed("thousands of watches wait in turns, and none is forgotten", function()
    local store, other, k = open(), open(), key()
    local leases = {}
    for i = 1, 40 do leases[i] = assert(other:lock(k .. "-" .. i)) end
    local uvs = {}
    for i = 1, 40 do
      uvs[i] = process.spawn and store:mutex(k .. "-" .. i)
      assert.are.equal("busy", select(3, uvs[i]:try_acquire()))
    end
    uv.sleep(300)
    for i = 1, 40 do assert.is_true(store:revoke(k .. "-" .. i)) end
    for i = 1, 40 do
      common.eventually(other, "the revoke is heard of", function()
        return leases[i]:revoked()
      end)
      assert(leases[i]:release())
    end
  end)
end)
