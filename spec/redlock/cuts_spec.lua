-- Redlock where requests and replies are cut, where a holder stands still
-- between its votes and their count, and where servers' clocks jump.
local clock = require "spec.support.clock"
local dlock = require "dlock"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local redlock = require "spec.support.redlock"
local server = require "spec.support.server"
local uv = require "luv"

local _, _, digests = require("spec.sim.redis_model").texts()

local function code_of(_, _, code) return code end

describe("on Redlock,", function()
  local set, proxies, store, rival

  -- store: through the proxies; rival: not.
  local function start(opts)
    set, proxies = redlock.start(opts), {}
    local hosts = {}
    for i, node in ipairs(set.nodes) do
      proxies[i] = proxy.start(node.url)
      hosts[i] = proxies[i].address
    end
    local url = "redlock://" .. table.concat(hosts, ",")
    store = assert(dlock.open { url = url, node_timeout = 1, io_timeout = 5 })
    rival = assert(dlock.open { url = set.url, node_timeout = 1,
      io_timeout = 5 })
    return url
  end

  after_each(function()
    process.close_all()
    for _, one in ipairs { store, rival } do one:close(1) end
    for _, one in ipairs(proxies or {}) do one:stop() end
    if set then set:stop() end
    set, proxies, store, rival = nil, nil, nil, nil
  end)

  local function nothing_left(key)
    loop.eventually("nothing left", 20, function()
      return set:votes(key) == 0
    end)
  end

  -- Fault 32. How many of three nodes are cut, and where.
  for _, step in ipairs { "vote", "raise", "leave" } do
    for _, way in ipairs { "cut_before", "cut_after" } do
      it(("%s at %s: one holder, fences that rise, nothing left"):format(way,
          step), function()
        start { count = 3 }
        local last = 0
        for count = 1, 3 do
          local key = "k" .. count
          for round = 1, 2 do
            set:spread(key, 7 * round)
            for i = 1, count do proxies[i][way](proxies[i], digests[step]) end
            local lease = assert(store:lock(key, { ttl = 3, timeout = 20 }))
            assert(lease.fence > last, ("%d %d"):format(last, lease.fence))
            local got = rival:try_lock(key)
            assert(not (got and lease:held()))
            lease:extend(3)
            lease:release()
            local after = got or assert(rival:lock(key, { timeout = 20 }))
            assert.is_false(lease:held())
            assert(after.fence > lease.fence)
            last = after.fence
            assert(after:release())
          end
          nothing_left(key)
        end
      end)
    end
  end

  it("answers later than node_timeout fail no call on a lease", function()
    local url = start()
    local slow = assert(dlock.open { url = url, io_timeout = 10 })
    local lease = assert(slow:lock("k", { ttl = 20, timeout = 20 }))
    for _, one in ipairs(proxies) do one:delay("down", 0.4) end
    assert(lease:extend())
    assert(slow:ping(10))
    assert.are.equal(lease.fence, assert(slow:inspect "k").holders[1].fence)
    assert.is_true(assert(slow:mutex "k"):locked())
    assert(lease:release())
    slow:close(1)
    nothing_left "k"
  end)

  it("a wait that ends before its first answers says who holds", function()
    start()
    local lease = assert(rival:lock "k")
    assert(store:ping())
    for _, one in ipairs(proxies) do one:delay("down", 0.3) end
    local _, message, code = store:lock("k", { timeout = 0.1 })
    assert.are.equal("timeout", code, message)
    assert(message:find("held by " .. lease.owner, 1, true), message)
    assert(lease:release())
  end)

  it("the first server's word of a break ends the hold", function()
    start()
    local lease = assert(rival:lock("k", { ttl = 1 }))
    for i = 2, 5 do proxies[i]:refuse(true) end
    loop.eventually("the loss", 60, function()
      store:break_lock "k"
      return not lease:held()
    end)
    assert.are.equal("lost", code_of(lease:release()))
    nothing_left "k"
  end)

  it("an attach that fails leaves the string as good as it was", function()
    start()
    local lease = assert(store:lock("k", { ttl = 60 }))
    local function unreachable(count)
      for i, one in ipairs(proxies) do
        one:refuse(i <= count)
        if i <= count then one:close() end
      end
    end
    local function stands_on_all()
      loop.eventually("five votes", 20, function()
        return set:votes("k") == 5
      end)
    end
    stands_on_all()
    assert(store:inspect "k") -- answered behind the votes
    local text = assert(lease:detach())
    stands_on_all()
    unreachable(3)
    assert.equal("unavailable", code_of(store:attach(text)))
    stands_on_all()
    unreachable(1)
    lease = assert(store:attach(text))
    assert.equal("busy", code_of(rival:try_lock("k")))
    assert(lease:release())
  end)

  for _, way in ipairs { "cut_before", "cut_after" } do
    it("an attach has the lease, or may be tried again: " .. way, function()
      start()
      for i = 1, 4 do
        local text =
          assert(assert(store:lock("k" .. i, { ttl = 60 })):detach())
        for j = 1, 3 do proxies[j][way](proxies[j], digests.attach) end
        local lease, _, why = store:attach(text)
        if not lease then
          assert.equal("unavailable", why)
          lease = assert(store:attach(text))
        end
        assert(lease:release())
      end
    end)
  end

  -- Two servers answer late: requests, or a first connection at all.
  for what, late in pairs { detach = 1.5, attach = 1.5, connect = 0.4 } do
    it(("a string leaves nothing where servers are late: %s"):format(what),
    function()
      local url = start()
      local lease = assert(store:lock("k", { ttl = 60, timeout = 20 }))
      loop.eventually("five votes", 20, function()
        return set:votes "k" == 5
      end)
      assert(store:inspect "k") -- answered behind the votes
      local function slow()
        for i = 4, 5 do proxies[i]:delay("down", late) end
      end
      if what == "detach" then slow() end
      local text = assert(lease:detach())
      slow()
      local by = what == "attach" and store or rival
      if what == "connect" then
        by = assert(dlock.open { url = url, node_timeout = 1 })
        finally(function() by:close(1) end)
      end
      assert(assert(by:attach(text)):release())
      nothing_left "k"
    end)
  end

  it("a break is told to slow servers too", function()
    local url = start()
    local lease = assert(rival:lock("k", { renew = false, ttl = 60 }))
    loop.eventually("five votes", 20, function()
      return set:votes("k") == 5
    end)
    for i = 4, 5 do proxies[i]:delay("both", 0.1) end
    local fresh = assert(dlock.open { url = url })
    finally(function() fresh:close(1) end)
    assert.is_true(fresh:break_lock "k")
    assert(fresh:close(0))
    assert.equal(0, set:votes("k"))
    assert(lease)
  end)

  it("a vote on a server that is gone is given back until its end alone",
  function()
    local url = start()
    local one = assert(dlock.open { url = url, node_timeout = 1,
      io_timeout = 0.5 })
    local lease = assert(one:lock("k", { ttl = 1, timeout = 20 }))
    loop.eventually("all votes", 60, function() return set:votes "k" == 5 end)
    proxies[5]:refuse(true)
    proxies[5]:close()
    set:each(function(client, i)
      if i <= 3 then client:call("SET", "dlock:k", "x", "PX", 60000) end
    end)
    assert(lease:wait_lost(60))
    uv.sleep(3000)
    local asked = proxies[5]:count(digests.leave)
    proxies[5]:refuse(false)
    uv.sleep(2000)
    assert.are.equal(asked, proxies[5]:count(digests.leave))
    one:close(1)
  end)

  -- Fault 36.
  it("a holder that stands still before its count never holds late", function()
    local url = start { count = 3 }
    assert(assert(rival:lock "k"):release())
    set:spread("k", 5)
    local votes = {}
    for i, one in ipairs(proxies) do
      one:delay("down", 0.5)
      votes[i] = one:count(digests.vote)
    end
    local one = process.spawn { script = [[
      local store = assert(require("dlock").open { url = arg[1],
        node_timeout = 1, connect_timeout = 10 })
      local lease = assert(store:lock("k", { ttl = 0.8, timeout = 60 }))
      print(lease.fence, lease:held())
      io.read()
      lease:release()
      store:close()
    ]], args = { url } }
    for i, each in ipairs(proxies) do
      assert(each:wait_for(digests.vote, { count = votes[i] + 1,
        timeout = 30 }))
    end
    one:pause()
    local lease = assert(rival:lock("k", { ttl = 20, timeout = 20 }))
    for _, each in ipairs(proxies) do each:delay("down", 0) end
    one:resume()
    uv.sleep(500)
    assert.is_true(lease:held())
    local fence = lease.fence
    assert(lease:release())
    local later, held = one:read_line(30):match("^(%d+)%s+(%a+)$")
    assert.are.equal("true", held)
    assert(tonumber(later) > fence, later)
    one:write("\n")
    assert.are.equal(0, one:wait(20))
    nothing_left "k"
  end)

  -- Fault 38.
  it("one server's clock that jumps ends no hold; of three, fences rise",
  function()
    local dir, clocks = server.new_dir(), {}
    start { env = function(i)
      uv.fs_mkdir(dir .. "/" .. i, 448)
      clocks[i] = clock.new(dir .. "/" .. i)
      return { DLOCK_TEST_CLOCK = clocks[i].path,
        LD_PRELOAD = dir .. "/" .. i .. "/clock.so" }
    end }
    local lease = assert(rival:lock("k", { ttl = 30 }))
    -- A vote that came after node_timeout is given back: extend asks for it.
    loop.eventually("all votes", 10, function()
      return assert(lease:extend()) and set:votes "k" == 5
    end)
    clocks[1]:step(3600)
    assert.are.equal("busy", code_of(store:try_lock "k"))
    assert(lease:extend())
    assert.is_true(lease:held())
    for i = 2, 4 do clocks[i]:step(3600) end
    local second = assert(store:lock("k", { timeout = 20 }))
    assert(second.fence > lease.fence)
    assert.are.equal("lost", code_of(lease:extend()))
    assert.is_true(second:held())
    assert(second:release())
    server.remove_dir(dir)
  end)
end)
