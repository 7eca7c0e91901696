-- The etcd store when the network, a member or the session fail. The numbers
-- are rows of docs/faults.md.

local common = require "spec.etcd.common"
local etcd = require "spec.support.etcd"
local proxy = require "spec.support.proxy"
local steady = require "spec.support.steady"
local uv = require "luv"

local key, open = common.key, common.open
local between

local function through(opts)
  between = between or proxy.start(common.url)
  local all = { url = between.url }
  for name, value in pairs(opts or {}) do all[name] = value end
  return open(all)
end

describe("with etcd in trouble,", function()
  local function tear_down()
    common.clean_up()
    if between then between:stop() end
    between = nil
  end

  local timed = steady(nil, tear_down)

  it("an epoch that is written late bars older creates only", function()
    local store, k = through(), key()
    local lease = assert(store:lock(k .. "held"))
    for _ = 1, 2 do
      between:close()
      assert(lease:extend())
    end
    local late
    for _, name in ipairs(etcd.keys(common.url, "/dlock/~")) do
      late = name:match("^(.*)/00000002$") or late
    end
    assert.are.equal(1, #etcd.keys(common.url, late))
    assert(etcd.ctl(common.url, "put", late .. "/00000001", "late"))
    assert(store:lock(k)):release()
    assert(etcd.ctl(common.url, "put", late .. "/00000003", "later"))
    assert.are.equal("unavailable", select(3, store:lock(k)))
    assert(etcd.ctl(common.url, "del", late, "--prefix"))
    assert(lease:release())
  end)

  it("a lease that an admin revoked is lost, and waits go on", function()
    local store, k = open { session_timeout = 2 }, key()
    local lease = assert(store:lock(k))
    for id in etcd.ctl(common.url, "lease", "list"):gmatch("\n(%x+)") do
      etcd.ctl(common.url, "lease", "revoke", id)
    end
    assert.is_true(lease:wait_lost(10))
    assert(store:lock(k, { timeout = 10 })):release()
  end)

  it("a key on another lease proves nothing", function()
    local store, k = open { session_timeout = 2 }, key()
    local lease = assert(store:lock(k))
    local name = common.nodes(k)[1]
    local other = etcd.ctl(common.url, "lease", "grant", "600")
      :match("lease (%x+)")
    assert(etcd.ctl(common.url, "put", name, "", "--lease=" .. other))
    assert.is_true(lease:wait_lost(60))
    common.eventually(store, "the key is gone", function()
      return #common.nodes(k) == 0
    end)
    assert(etcd.ctl(common.url, "lease", "revoke", other))
  end)

  -- Another hold of the store goes on being proved meanwhile.
  it("one of several keys that is on no lease any more is lost", function()
    local store, k = open(), key()
    local kept = assert(store:lock(k .. "kept"))
    for _, way in ipairs { "a watch", "an extend" } do
      local lease = assert(store:lock(k))
      assert(etcd.ctl(common.url, "put", common.nodes(k)[1], "garbage"))
      if way == "an extend" then
        local _, message, code = lease:extend()
        assert.are.equal("lost", code, message)
      end
      assert.is_true(lease:wait_lost(20))
      common.eventually(store, "the key is gone", function()
        return #common.nodes(k) == 0
      end)
      assert.is_true(kept:held())
    end
    assert.is_true(kept:release())
  end)

  it("several writes are guarded together", function()
    local store, k = open(), key()
    local lease = assert(store:lock(k))
    local a, b = "/guarded/a" .. k, "/guarded/b" .. k
    assert(lease:guard("PUT", a, "1", "PUT", b, "2"))
    assert.are.equal(2, #etcd.keys(common.url, "/guarded/"))
    local ok, message, code = lease:guard("PUT", a, "1", "PUT", a, "2")
    assert.is_nil(ok)
    assert.are.equal("invalid", code)
    assert.matches("duplicate key", message)
    assert(lease:guard("DELETE", a, "DELETE", b))
    assert.are.equal(0, #etcd.keys(common.url, "/guarded/"))
    assert(lease:release())
    assert.are.equal("lost", select(3, lease:guard("PUT", a, "3")))
  end)

  it("a detached lease that is broken leaves nothing", function()
    local store, k = open(), key()
    local text = assert(assert(store:lock(k, { ttl = 20 })):detach())
    assert.is_true(store:break_lock(k))
    assert.are.equal(0, #common.nodes(k))
    assert.are.equal("lost", select(3, store:attach(text)))
  end)

  -- Its revision is gone when it is asked for again.
  timed("a watch that was compacted meanwhile reads again", function()
    local store, other, k = through { session_timeout = 20 }, open(), key()
    local lease = assert(store:lock(k))
    uv.sleep(300) -- from then on its key is watched
    store:ping()
    between:refuse(true)
    between:close()
    assert.is_true(other:revoke(k))
    local fields = etcd.ctl(common.url, "get", "x", "-w=fields")
    assert(etcd.ctl(common.url, "compact",
      fields:match('"Revision" : (%d+)')))
    between:refuse(false)
    common.eventually(store, "the revoke is heard of", function()
      return lease:revoked()
    end)
    assert(lease:release())
  end)

  timed("a full quota refuses what is new, and takes releases", function()
    local full = etcd.start { arguments = { "--quota-backend-bytes",
      "1000000" } }
    local store = open { url = full.url, io_timeout = 1 }
    local lease, other = assert(store:lock("a", { timeout = 10 })),
      assert(store:lock("b", { timeout = 10 }))
    local text, fits, why = ("x"):rep(100000), true, nil
    while fits do fits, why = etcd.ctl(full.url, "put", uv.hrtime(), text) end
    assert.matches("space exceeded", why)
    local _, message, code = store:try_lock("c")
    assert.are.equal("unavailable", code)
    assert.matches("refuses it: etcdserver: mvcc: database space exceeded",
      message, 1, true)
    -- The next two may be done, or not.
    assert.are.equal("unavailable", select(3, other:guard("PUT", "/x", "y")))
    assert.are.equal("unavailable", select(3, other:detach()))
    assert.is_true(lease:held())
    assert.is_true(lease:release())
    assert.is_false(store:mutex("a"):locked())
    store:close(1)
    full:stop()
  end)

  it("a guarded write that is too large is invalid", function()
    local lease = assert(open():lock(key()))
    for _, size in ipairs { 1600000, 3000000 } do
      local _, message, code = lease:guard("PUT", "/x", ("x"):rep(size))
      assert.are.equal("invalid", code, message)
    end
    assert(lease:guard("PUT", "/x", "y"))
    assert(lease:release())
  end)

  timed("a detach or attach whose answer is lost is settled", function()
    for _, what in ipairs { "detach", "attach" } do
      local store = through { session_timeout = 20 }
      local other, k = open { session_timeout = 20 }, key()
      local lease = assert(store:lock(k, { ttl = 20 }))
      if what == "attach" then
        local text = assert(assert(other:lock(k .. "a", { ttl = 20 })):detach())
        lease:release()
        between:cut_after("/dlock/" .. k .. "a/x-")
        lease = assert(store:attach(text))
        local _, message, code = other:attach(text)
        assert.are.equal("lost", code)
        assert.is_nil(message:find("%x" .. ("%x"):rep(15)), message)
      else
        between:cut_after("/dlock/" .. k .. "/x-")
        lease = assert(other:attach(assert(lease:detach())))
      end
      assert.is_true(lease:held())
      assert(lease:release())
      assert.are.equal(0, #common.nodes(k))
      assert.are.equal(0, #common.nodes(k .. "a"))
    end
  end)
end)
