-- The etcd and the Consul store when the network or a server fails: what the
-- recipe of stores with sessions has to do on each.

local proxy = require "spec.support.proxy"
local steady = require "spec.support.steady"

-- data: how names of guarded data begin; pieces: of answers, in bytes; hears:
-- the seconds in which a release is heard of.
local STORES = {
  { title = "etcd", common = require "spec.etcd.common", data = "/guarded/",
    pieces = { 1, 2, 7, 64 }, hears = 5 },
  { title = "Consul", common = require "spec.consul.common", data = "guarded/",
    pieces = { 7, 64 }, hears = 60 },
}

local function cases(one)
  local common, between = one.common, nil
  local key, open, nodes, now = common.key, common.open, common.nodes,
    common.now

  local function through(opts)
    between = between or proxy.start(common.url)
    local all = { url = between.url }
    for name, value in pairs(opts or {}) do all[name] = value end
    return open(all)
  end

  local function tear_down()
    common.clean_up()
    if between then between:stop() end
    between = nil
  end

  local timed = steady(nil, tear_down)

  it("a create whose answer is lost leaves one key, and it is ours", function()
    local store, k = through(), key()
    assert(store:ping())
    between:cut_after("dlock/" .. k .. "/x-")
    local lease = assert(store:lock(k, { timeout = 10 }))
    assert.are.equal(1, #nodes(k))
    assert.is_true(lease:held())
    assert(lease:release())
    assert.are.equal(0, #nodes(k))
  end)

  it("a create that never arrives is made again", function()
    local store, k = through(), key()
    assert(store:ping())
    between:cut_before("dlock/" .. k .. "/x-")
    local lease = assert(store:lock(k, { timeout = 10 }))
    assert.are.equal(1, #nodes(k))
    assert(lease:release())
    assert.are.equal(0, #nodes(k))
  end)

  -- A server may commit a create, or pass it on, after its client has given
  -- the connection up.
  it("a create of a lost connection is not done later", function()
    local store, k = through { io_timeout = 0.5 }, key()
    assert(store:mutex(k .. "mark"):locked() == false)
    between:hold("up", { sent = k .. "mark" })
    assert.are.equal("unavailable",
      select(3, store:lock(k, { timeout = 0.3 })))
    assert(store:lock(k .. "b", { timeout = 10 })):release()
    assert.are.equal(0, #nodes(k))
    between:release("up")
    for _ = 1, 20 do
      assert.are.equal(0, #nodes(k))
    end
  end)

  it("a server that is gone: a wait says that it refuses", function()
    local store, k = through(), key()
    assert(store:lock(k)):release()
    between:stop()
    local lease, message, code = store:lock(k, { timeout = 2 })
    between = nil
    assert.is_nil(lease)
    assert.are.equal("unavailable", code, message)
    assert.matches("Connection refused", message)
  end)

  it("a release whose answer is lost is settled", function()
    local store, k = through { io_timeout = 5 }, key()
    local lease = assert(store:lock(k))
    between:cut_after("dlock/" .. k .. "/x-")
    assert.is_true(lease:release())
    assert.are.equal(0, #nodes(k))
  end)

  timed("a release that cannot be sent says unavailable, and is done later",
    function()
      local store, k = through { io_timeout = 0.5 }, key()
      local lease = assert(store:lock(k))
      between:refuse(true)
      between:close()
      local start = now()
      assert.are.equal("unavailable", select(3, lease:release()))
      assert.is_true(now() - start < 1.5)
      between:refuse(false)
      common.eventually(store, "the key is gone", function()
        return #nodes(k) == 0
      end)
    end)

  it("a wait goes on through a new connection, and hears of the release",
    function()
      local store, other, k = through(), open(), key()
      local lease = assert(other:lock(k))
      local mutex = assert(store:mutex(k))
      assert.are.equal("timeout", select(3, mutex:acquire { timeout = 0.3 }))
      between:close()
      assert(lease:release())
      assert(mutex:acquire { timeout = one.hears }):release()
    end)

  timed("a server that says nothing costs a hold only its session", function()
    local store, k = through { session_timeout = 2, io_timeout = 0.5 }, key()
    local lease = assert(store:lock(k))
    between:hold("both")
    between:refuse(true)
    local start = now()
    assert.is_true(lease:wait_lost(10))
    assert.is_true(now() - start < 2.1, now() - start)
    assert(open():lock(k, { timeout = 60 })):release()
  end)

  it("a guarded write whose answer is lost is not repeated", function()
    local store, k = through(), key()
    local lease, name = assert(store:lock(k)), one.data .. k
    between:cut_after(name)
    local ok, message, code = lease:guard("PUT", name, "1")
    assert.is_nil(ok)
    assert.are.equal("unavailable", code, message)
    assert(lease:guard("DELETE", name))
    assert(lease:release())
  end)

  it("answers in pieces of any size say the same", function()
    local store, k = through { session_timeout = 30, io_timeout = 10 }, key()
    for _, bytes in ipairs(one.pieces) do
      between:trickle("down", bytes)
      local lease = assert(store:lock(k, { timeout = 20 }))
      assert.are.equal(1, #store:inspect(k).holders)
      assert(lease:release())
    end
    between:trickle("down")
  end)
end

for _, one in ipairs(STORES) do
  describe("with " .. one.title .. " in trouble,", function() cases(one) end)
end
