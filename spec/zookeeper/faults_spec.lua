-- The ZooKeeper store when the network, the server or the session fail. Each
-- case names the row of the fault list that it is for.

local common = require "spec.zookeeper.common"
local core = require "dlock.core"
local proxy = require "spec.support.proxy"
local steady = require "spec.support.steady"
local uv = require "luv"
local zk = require "spec.support.zk"

local key, open = common.key, common.open
local between

local function through(opts)
  between = between or proxy.start(common.url)
  local all = { url = between.url }
  for name, value in pairs(opts or {}) do all[name] = value end
  return open(all)
end

-- The engine works while somebody waits: this waits, and looks.
local function until_true(store, what, fn, timeout)
  local deadline = common.now() + (timeout or 15)
  repeat
    store:mutex("nobody"):locked()
    if fn() then return common.now() end
  until common.now() > deadline
  error("never came true: " .. what, 2)
end

describe("with ZooKeeper in trouble,", function()
  local function tear_down()
    common.clean_up()
    between = nil
  end

  local timed = steady(nil, tear_down)

  it("a create whose answer is lost leaves one node, and it is ours", function()
    local store, k = through(), key()
    assert(store:lock(k)):release() -- the lock's node is there
    between:cut_after("/dlock/" .. k .. "/x-")
    local lease = assert(store:lock(k, { timeout = 10 }))
    assert.are.equal(1, #common.nodes(k .. "/"))
    assert.is_true(lease:held())
    assert(lease:release())
    assert.are.equal(0, #common.nodes(k .. "/"))
  end)

  it("a create that never arrives is made again", function()
    local store, k = through(), key()
    assert(store:lock(k)):release()
    between:cut_before("/dlock/" .. k .. "/x-")
    local lease = assert(store:lock(k, { timeout = 10 }))
    assert.are.equal(1, #common.nodes(k .. "/"))
    assert(lease:release())
  end)

  it("a create whose answer is lost, and a wait that ends before that is "
    .. "settled, leave nothing", function()
    local store, k = through { io_timeout = 0.5 }, key()
    assert(store:lock(k)):release() -- the lock's node is there
    between:refuse(true)
    between:cut_after("/dlock/" .. k .. "/x-")
    local _, _, code = store:lock(k, { timeout = 0.7 })
    assert.are.equal("unavailable", code)
    assert.are.equal(1, #common.nodes(k .. "/"))
    between:refuse(false)
    until_true(store, "no node is left", function()
      return #common.nodes(k .. "/") == 0
    end)
  end)

  it("a release whose answer is lost is settled", function()
    local store, k = through { io_timeout = 5 }, key()
    local lease = assert(store:lock(k))
    between:cut_after("/dlock/" .. k .. "/x-")
    assert.is_true(lease:release())
    assert.are.equal(0, #common.nodes(k .. "/"))
  end)

  timed("a release that cannot be sent says unavailable, and is done later",
    function()
      local store, k = through { io_timeout = 0.5 }, key()
      local lease = assert(store:lock(k))
      between:refuse(true)
      between:close()
      local start = common.now()
      assert.are.equal("unavailable", select(3, lease:release()))
      assert.is_true(common.now() - start < 1.5)
      between:refuse(false)
      common.eventually("the node is gone", function()
        return #common.nodes(k .. "/") == 0
      end, 15)
    end)

  it("extensions that wait for the same answer are all answered", function()
    local store, k = through { io_timeout = 10 }, key()
    local e = common.engine(store)

    -- A lease, and three extensions of it that wait. (One that has been held
    -- for a moment watches its node, so that none would.)
    local function extended()
      local lease, tickets = assert(store:lock(k)), {}
      between:hold("down")
      for i = 1, 3 do tickets[i] = assert(core.extend(lease, 30 + i)) end
      if not tickets[1]:poll() then
        return lease, tickets
      end
      between:release("down")
      assert(lease:release())
      return extended()
    end

    for _, what in ipairs { "answer", "cut", "release" } do
      local lease, tickets = extended()
      local ending
      tickets[2]:cancel()
      assert.are.equal("cancelled", select(3, e.finish(tickets[2])))
      assert.is_false(tickets[1]:poll() or tickets[3]:poll())
      if what == "cut" then
        between:discard()
        between:close()
      else
        ending = what == "release" and assert(core.release(lease))
        between:release("down")
      end
      if ending then
        assert.are.equal("lost", select(3, e.finish(tickets[1])))
        assert.are.equal("lost", select(3, e.finish(tickets[3])))
        assert.is_true(e.finish(ending))
      else
        assert.is_true(assert(e.finish(tickets[1])) <= 31)
        assert.is_true(assert(e.finish(tickets[3])) <= 33)
        assert.are.equal(33, lease.ttl)
        assert(lease:release())
      end
    end
  end)

  it("a create whose answer is left out of a stream that goes on is ours",
    function()
      local store, k = through { io_timeout = 10 }, key()
      assert(store:lock(k)):release() -- the lock's node is there
      between:drop_messages("down", 1, "/dlock/" .. k .. "/x-")
      local lease = assert(store:lock(k, { timeout = 10 }))
      assert.are.equal(1, #common.nodes(k .. "/"))
      assert(lease:release())
      assert.are.equal(0, #common.nodes(k .. "/"))
    end)

  it("a list whose answer is lost is asked for again", function()
    local store, k = through(), key()
    local holder = assert(open():lock(k))
    between:cut_after("/dlock/" .. k .. "/x-", { skip = 1 }) -- watches
    local e = common.engine(store)
    local ticket = e.start(k, { 0, 0 })
    common.queued(k, 2)
    uv.sleep(200)
    holder:release()
    local lease = assert(e.finish(ticket))
    assert.are.equal(1, #common.nodes(k .. "/"))
    lease:release()
  end)

  timed("a cut-off holder stops believing before the server gives its lock "
    .. "away", function()
    local store, k = through { session_timeout = 3 }, key()
    local lease = assert(store:lock(k, { ttl = 30 }))
    local other = common.peer([[
      print("waiting")
      local lease = assert(store:lock(key, { timeout = 20 }))
      print(("got %.6f"):format(require("dlock.core").now()))
      io.read()
    ]], k)
    other:expect("waiting")
    common.queued(k, 2)
    between:hold("both")
    local believed, held
    repeat
      local now = core.now()
      held = lease:held()
      believed = held and now or believed
      uv.sleep(2)
    until not held
    local _, got = other:expect("got (%S+)", 15)
    assert.is_true(believed < tonumber(got), believed .. " " .. got)
    assert.are.equal("lost", select(3, lease:release()))
    between:discard()
  end)

  it("a late answer does not revive a hold", function()
    local store, k = through { session_timeout = 3 }, key()
    local lease = assert(store:lock(k))
    between:hold("down")
    while lease:held() do uv.sleep(2) end
    between:release("down")
    local deadline = common.now() + 1
    repeat
      store:mutex("nobody"):locked()
      assert.is_false(lease:held())
    until common.now() > deadline
    until_true(store, "the node is gone", function()
      return #common.nodes(k .. "/") == 0
    end)
    assert(store:lock(k, { timeout = 10 })):release()
  end)

  timed("a server nobody listens on, or that never answers, is unavailable in "
    .. "bounded time", function()
    local dead = open { url = "zookeeper://127.0.0.1:9", timeout = 1,
      io_timeout = 1 }
    local start = common.now()
    assert.are.equal("unavailable", select(3, dead:lock("k")))
    assert.are.equal("unavailable", select(3, dead:try_lock("k")))
    assert.are.equal("unavailable", select(3, dead:mutex("k"):locked()))
    assert.is_true(common.now() - start < 5, common.now() - start)
    local mute = through { timeout = 1, io_timeout = 1 }
    between:hold("both")
    start = common.now()
    local _, message, code = mute:lock("k")
    assert.are.equal("unavailable", code)
    assert.is_truthy(message:find("ZooKeeper", 1, true), message)
    assert.is_true(common.now() - start < 3)
    start = common.now()
    assert(mute:close())
    assert.is_true(common.now() - start < 2)
  end)

  it("a name that cannot be looked up is unavailable", function()
    local store = open { url = "zookeeper://no-such-host.invalid", timeout = 1 }
    local start = common.now()
    local _, message, code = store:lock("k")
    assert.are.equal("unavailable", code, message)
    assert.matches("be resolved", message)
    assert.is_true(common.now() - start < 4)
  end)

  it("a lock waits for a server that comes back", function()
    local k = key()
    through()
    between:refuse(true)
    local child = common.peer([[
      local lease = assert(store:lock(key, { timeout = 20 }))
      print("got", lease:held())
      lease:release()
      store:close()
    ]], k, { url = between.url })
    uv.sleep(500)
    between:refuse(false)
    child:expect("got\ttrue")
  end)

  it("a server that restarts keeps holders and waiters in their order",
    function()
      local s = zk.start { tick = 3000 }
      -- A server of version 3.8 that is still loading may leave a connection
      -- open and never answer on it, so it gets none before it serves.
      local gate, k = proxy.start(s.url), key()
      local holder = open { url = gate.url, session_timeout = 60 }
      local lease = assert(holder:lock(k))
      local e = common.engine(open { url = gate.url, session_timeout = 60 })
      local ticket = e.start(k, { 0, 0 }, 60)
      common.queued(k, 2, s.url)
      gate:refuse(true)
      s:kill()
      s:start_again()
      gate:refuse(false)
      common.eventually("extended", function() return lease:extend() end, 25)
      assert.is_true(lease:held())
      assert.are.equal(2, #common.nodes(k .. "/", s.url))
      assert(lease:release(10))
      local after = assert(e.finish(ticket))
      assert.is_true(after.fence > lease.fence)
      assert(after:release(10))
      common.clean_up()
      s:stop()
    end)

  it("watches do not pile up", function()
    local store, k = open(), key()
    local lease = assert(store:lock(k))
    local other = open()
    local function watches() return zk.stats()["zk_watch_count"] end
    other:lock(k, { timeout = 0.05 })
    local before = watches()
    for _ = 1, 200 do
      assert.is_nil((other:try_lock(k)))
    end
    for _ = 1, 20 do
      assert.is_nil((other:lock(k, { timeout = 0.01 })))
    end
    -- The server takes one away behind the answer that we have read; and on a
    -- machine that stood still two were not there yet when they were counted,
    -- the holder's and the first wait's.
    common.eventually("those of the waits are gone", function()
      return watches() <= before + 3
    end)
    lease:release()
    common.eventually("the holder's is gone", function()
      return watches() <= before
    end)
  end)

  timed("what is held for long is confirmed by writes, and only then",
  function()
    local s, k = zk.start(), key() -- alone, so that each write is ours
    local store = open { url = s.url, session_timeout = 5 }
    local function writes()
      local text = zk.four("srvr", s.url)
      return tonumber(text:match("Zxid: 0x(%x+)"), 16)
    end
    local lease = assert(store:lock(k))
    local before = writes()
    local deadline = common.now() + 5.5
    while common.now() < deadline do
      assert.is_true(lease:held())
      uv.sleep(20)
    end
    local during = writes() - before
    assert.is_true(during >= 3 and during <= 6, during)
    lease:release()
    before = writes()
    uv.sleep(1500)
    assert.are.equal(before, writes())
    common.clean_up()
    s:stop()
  end)

  -- Its answers to us do not renew the session at the leader: the follower's
  -- next pings would have, which the leader no longer gets.
  it("a follower that is cut off right after an answer has confirmed no more "
    .. "than the leader knew", function()
    local links = {}
    local ensemble = zk.start_ensemble(3, { sync_limit = 40,
      between = function(port)
        links[#links + 1] = proxy.start("127.0.0.1:" .. port)
        return links[#links].port
      end })
    local leader, k = ensemble:leader(), key()
    assert.is_true(leader < 3)
    between = proxy.start(ensemble[3].url)
    local store = open { url = between.url, session_timeout = 6 }
    local lease = assert(store:lock(k, { timeout = 20 }))
    local function there()
      return #common.nodes(k .. "/", ensemble[leader].url) > 0
    end
    -- The confirms name the node; by the third the chain carries the lease.
    local sent = between:count(k)
    assert(between:wait_for(k, { count = sent + 3, timeout = 20 }))
    local answered = between:stats().down
    common.eventually("it is answered", function()
      return between:stats().down > answered
    end)
    links[leader]:hold("both")
    local believed, start = nil, common.now()
    while there() do
      if lease:held() then believed = common.now() end
      assert.is_true(common.now() - start < 15)
    end
    assert.is_true(believed ~= nil)
    assert.is_false(lease:held())
    links[leader]:discard()
    common.clean_up()
    ensemble:stop()
  end)

  timed("a leader without its majority confirms nothing, whatever it still "
    .. "answers", function()
    local ensemble = zk.start_ensemble(3, { sync_limit = 40 })
    local leader, k = ensemble:leader(), key()
    local store = open { url = ensemble[leader].url, session_timeout = 4 }
    local reader = open { url = ensemble[leader].url, session_timeout = 4 }
    local lease = assert(store:lock(k))
    assert(reader:ping())
    uv.sleep(2500) -- the chain carries it by now
    assert.is_true(lease:held())
    for id = 1, 3 do
      if id ~= leader then ensemble[id]:pause() end
    end
    local start, answered = common.now(), 0
    while lease:held() do
      if reader:ping(0.2) then answered = common.now() - start end
      assert.is_true(common.now() - start < 4)
    end
    local believed = common.now() - start
    -- Reads were answered to the end: they prove nothing.
    assert.is_true(answered > believed - 0.9, answered .. " " .. believed)
    for id = 1, 3 do
      if id ~= leader then ensemble[id]:resume() end
    end
    common.clean_up()
    ensemble:stop()
  end)
end)
