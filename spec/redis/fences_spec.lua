-- Fences on servers whose data goes back in time: a restart from an older
-- snapshot, a replica that takes over without the last writes. And the
-- counters' time to live.

local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"

local REPLICATES = { ["repl-diskless-sync-delay"] = 0 }

describe("fences on redis:", function()
  local opened, stores = {}, {}

  local function start(config)
    local one = redis.start(config)
    opened[#opened + 1] = one
    return one, one:connect()
  end

  local function open(url, opts)
    opts = opts or {}
    opts.url, opts.connect_timeout = url, 5
    local store = assert(dlock.open(opts))
    stores[#stores + 1] = store
    return store
  end

  after_each(function()
    for _, store in ipairs(stores) do store:close(1) end
    for _, one in ipairs(opened) do one:stop() end
    opened, stores = {}, {}
  end)

  it("a counter that is missing is not made by what takes a lock", function()
    local _, admin = start()
    local texts = require("spec.sim.redis_model").texts()
    local counter = "~dlock:{000000}:f:dlock:k"
    assert.is_nil((admin:call("EVAL", texts.take, 2, "dlock:k", counter,
      "token", 1000)))
    assert.are.equal(0, admin:call("EXISTS", "dlock:k", counter))
    admin:close()
  end)

  -- The last of some fences, which all rise.
  local function use(store, last, count)
    for _ = 1, count or 5 do
      local lease = assert(store:lock("k", { timeout = 10 }))
      assert.is_true(lease.fence > last, ("%.0f after %.0f"):format(
        lease.fence, last))
      last = lease.fence
      assert(lease:release())
    end
    return last
  end

  local function copy(admin, from)
    eventually("a copy of the data", 10, function()
      return admin:call("INFO", "replication"):find("master_link_status:up")
        and admin:call("DBSIZE") == from:call("DBSIZE")
    end)
  end

  it("rise after a restart from an older snapshot", function()
    local server, admin = start()
    local store = open(server.url)
    use(store, 0)
    admin:call("SAVE")
    local last = use(store, 0)
    server:kill()
    server:start_again()
    use(store, use(open(server.url), last))
    admin:close()
  end)

  it("rise after a restart, whichever client hands on first", function()
    local server, admin = start()
    local store = open(server.url)
    local other = open(server.url)
    local lease = assert(store:lock("k", { ttl = 30 }))
    assert(other:try_lock("other"))
    admin:call("SAVE")
    local last = 0
    assert(lease:release())
    last = use(store, last)
    server:kill()
    server:start_again() -- the lease is there again
    assert(other:break_lock("k"))
    use(other, last)
    admin:close()
  end)

  it("rise when a replica takes over without the last ones", function()
    local primary, there = start(REPLICATES)
    local between = proxy.start(primary.url)
    local replica, here = start {
      replicaof = "127.0.0.1 " .. between.port }
    local store = open(primary.url)
    use(store, 0)
    copy(here, there)
    between:hold("down")
    local last = use(store, 0)
    primary:kill()
    between:stop()
    here:call("REPLICAOF", "NO", "ONE")
    use(open(replica.url), last)
    here:close()
    there:close()
  end)

  it("rise on a server that was seen to be a replica for a while", function()
    local server, admin = start(REPLICATES)
    local other, there = start(REPLICATES)
    local store = open(server.url)
    use(store, 0)
    there:call("REPLICAOF", "127.0.0.1", server.port)
    copy(there, admin)
    there:call("REPLICAOF", "NO", "ONE")
    local last = use(store, 0)
    admin:call("REPLICAOF", "127.0.0.1", other.port)
    copy(admin, there)
    local _, _, code = store:try_lock("k")
    assert.are.equal("unavailable", code)
    admin:call("REPLICAOF", "NO", "ONE")
    use(store, last)
    admin:close()
    there:close()
  end)

  -- What the one gives is unknown to the other. Who comes from the one to the
  -- other lifts the counter there.
  it("of two primaries at once may fall, until somebody comes over", function()
    local one, here = start()
    local two, there = start()
    local first = open(one.url)
    use(first, 0)
    local last = use(open(two.url), use(first, 0))
    local lease = assert(first:lock("k"))
    assert.is_true(lease.fence < last)
    assert(lease:release())
    last = use(open(one.url), last)
    use(first, last)
    here:close()
    there:close()
  end)

  describe("a counter", function()
    local function left(admin)
      local names = admin:call("KEYS", "~dlock:{*}:f:dlock:k")
      return admin:call("PTTL", names[1]) / 1000
    end

    it("stays for fence_memory after its last use", function()
      local server, admin = start()
      local store = open(server.url, { fence_memory = 60 })
      for _ = 1, 3 do
        assert(assert(store:lock("k")):release())
        local seconds = left(admin)
        assert.is_true(seconds > 59 and seconds <= 68, seconds)
      end
      for _, memory in ipairs { 600, 60 } do -- each on a new connection
        local other = open(server.url, { fence_memory = memory })
        assert(assert(other:lock("k")):release())
        local seconds = left(admin)
        assert.is_true(seconds > 590 and seconds <= 676, seconds)
      end
      admin:close()
    end)

    it("stays for longer than the lease, however short its memory", function()
      local server, admin = start()
      local store = open(server.url, { fence_memory = 1 })
      for _, opts in ipairs { { ttl = 100 }, { ttl = 5 },
          { ttl = 200, renew = false } } do
        local lease = assert(store:lock("k", opts))
        assert.is_true(left(admin) >= lease.ttl)
        assert(lease:extend(300))
        assert.is_true(left(admin) >= 300)
        assert.are.equal("busy", select(3,
          open(server.url, { fence_memory = 1 }):try_lock("k", { ttl = 1 })))
        assert.is_true(left(admin) >= 299)
        assert(lease:release())
      end
      admin:close()
    end)

    it("takes a number of seconds", function()
      for _, bad in ipairs { 0, -1, 1e10, 0 / 0 } do
        assert.are.equal("invalid", select(3, dlock.open {
          url = "redis://127.0.0.1", fence_memory = bad }))
      end
    end)
  end)
end)
