-- The ZooKeeper store on three servers of which one is lost, led and is killed,
-- or is cut off from the others; and a session that moves between servers, or
-- expires. Meanwhile processes take a lock again and again: no two hold it at
-- once, fences rise, and each wait ends with the lock.

local common = require "spec.zookeeper.common"
local core = require "dlock.core"
local crowd = require "spec.zookeeper.crowd"
local proxy = require "spec.support.proxy"
local zk = require "spec.support.zk"
local zk_ensemble = require "spec.support.zk_ensemble"

local key, open = common.key, common.open

describe("on three ZooKeeper servers,", function()
  local three, some, gates

  setup(function()
    three = zk_ensemble.start { sync_limit = 6,
      config = { maxSessionTimeout = 60000 } }
  end)

  teardown(function()
    three:stop()
  end)

  before_each(function()
    assert.is_true(three:serves(15))
    gates = {}
  end)

  after_each(function()
    three:mend()
    common.close_stores()
    if some then
      some:stop()
      some = nil
    end
    for _, gate in ipairs(gates) do
      gate:stop()
    end
  end)

  -- Processes with short sessions, on all servers; each has had the lock.
  local function begin()
    some = crowd.start { url = three.url, count = 4, session_timeout = 4 }
    some:wait_for_holds(2)
  end

  -- All is well again since that time; nothing went wrong at any.
  local function check(since)
    assert.is_true(three:serves(15))
    some:wait_for_holds(2, since)
    local found = some:finish()
    assert.are.same({}, { found.holds.overlaps[1] })
    assert.are.same({}, { found.holds.fences[1] })
    assert.are.same({}, { found.calls.late[1] })
    assert.is_true(found.acquired.ok >= 16)
    found.acquired.ok = nil
    assert.are.same({}, found.acquired)
    for code in pairs(found.released) do
      assert.is_true(code == "ok" or code == "lost" or code == "unavailable",
        code)
    end
  end

  -- The session of the one node of a lock, and the server that serves it.
  local function session_of(k)
    for session, paths in pairs(zk.ephemerals(three.urls[three:leader()])) do
      for _, path in ipairs(paths) do
        if path:find(k .. "/", 1, true) then
          for id, url in ipairs(three.urls) do
            local text = zk.four("cons", url, 2) or ""
            if text:find("sid=" .. session .. ",", 1, true) then
              return session, id
            end
          end
        end
      end
    end
  end

  -- What each server says of itself.
  local function modes()
    local said = {}
    for i, url in ipairs(three.urls) do
      said[i] = (zk.four("srvr", url, 2) or "nothing"):match("Mode: (%w+)")
        or "silent"
    end
    return "; servers: " .. table.concat(said, ", ")
  end

  -- A lease in a long session, which some follower serves, or the leader.
  local function lease_on(leads)
    for _ = 1, 100 do
      local k, store = key(), open { url = three.url, session_timeout = 30 }
      local lease = assert(store:lock(k, { timeout = 20 }))
      local _, id = session_of(k)
      if id and (id == three:leader()) == leads then
        return lease, k, id
      end
      assert(lease:release())
      store:close()
    end
    error("never on such a server")
  end

  -- Kills the server, looks at the lease meanwhile, and starts it again.
  local function survives_the_end_of_its_server(leads)
    local lease, k, id = lease_on(leads)
    local session = session_of(k)
    three:kill(id)
    local moved, message = pcall(common.eventually, "the session is elsewhere",
    function()
      assert.is_true(lease:held())
      local now, at = session_of(k)
      return now == session and at ~= id
    end, 25)
    assert(moved, tostring(message) .. modes())
    common.eventually("extended", function() return lease:extend() end)
    local since = core.now()
    three:start_again(id)
    check(since)
    assert.is_true(lease:held())
    assert.is_true(lease:release())
  end

  it("a server that is lost takes no lock with it", function()
    begin()
    survives_the_end_of_its_server(false)
  end)

  it("a leader that is killed takes no lock with it", function()
    begin()
    survives_the_end_of_its_server(true)
  end)

  it("a server that is cut off from the leader holds nobody for longer than "
    .. "its session", function()
    three:let_last_follow()
    begin()
    local store, k = open { url = three.urls[three.last] }, key()
    local lease = assert(store:lock(k, { timeout = 20 }))
    local other = common.peer([[
      local core = require "dlock.core"
      print("waiting")
      local lease = assert(store:lock(key, { timeout = 60 }))
      print(("got %.6f %.0f"):format(core.now(), lease.fence))
      io.read()
      assert(lease:release())
      print("released")
    ]], k, { url = three.urls[three:leader()], session_timeout = 30 })
    other:expect("waiting")
    common.queued(k, 2, three.urls[three:leader()])
    assert.is_true(three:cut_off("hold"))
    local believed
    common.eventually("it is lost", function()
      local now = core.now()
      local held = lease:held()
      believed = held and now or believed
      return not held
    end)
    assert.are.equal("lost", select(3, lease:extend()))
    assert.are.equal("unavailable",
      select(3, store:lock(k, { timeout = 1 })))
    local _, got, fence = other:expect("got (%S+) (%d+)", 30)
    assert.is_true(believed < tonumber(got), got .. " " .. believed)
    assert.is_true(tonumber(fence) > lease.fence)
    assert.are.equal("lost", select(3, lease:release()))
    local since = core.now()
    three:join()
    check(since)
    other:write("go\n")
    other:expect("released")
    other:close()
    local again = assert(store:lock(k, { timeout = 30 }))
    assert.is_true(again.fence > tonumber(fence))
    assert(again:release())
  end)

  -- A way to each of the first two servers that can be closed.
  local function through_gates()
    local addresses = {}
    for id = 1, 2 do
      gates[id] = proxy.start(three.urls[id])
      addresses[id] = gates[id].address
    end
    return "zookeeper://" .. table.concat(addresses, ",")
  end

  it("a session that moves keeps its locks and its place in a queue",
    function()
      local url, k, k2 = through_gates(), key(), key()
      local other = open { url = three.url, session_timeout = 30 }
      local store = open { url = url, session_timeout = 30 }
      local lease = assert(store:lock(k, { timeout = 20 }))
      local held = assert(other:lock(k2, { timeout = 20 }))
      local e = common.engine(store)
      local ticket = e.start(k2, { 0, 0 }, 60)
      common.queued(k2, 2, three.urls[three:leader()])
      begin()
      local session, at = session_of(k)
      for _ = 1, 3 do
        gates[at]:refuse(true)
        gates[at]:reset()
        local gone = at
        common.eventually("it has moved", function()
          assert.is_true(lease:held())
          local now
          now, at = session_of(k)
          return now == session and at and at ~= gone
        end, 25)
        gates[gone]:refuse(false)
      end
      assert.is_true(held:release())
      local waited = assert(e.finish(ticket))
      assert.is_true(waited.fence > 0)
      assert.is_true(waited:release())
      assert.is_true(lease:release())
      check(core.now())
    end)

  it("a session that expires loses its locks, and its waits go on", function()
    local url, k, k2 = through_gates(), key(), key()
    local other = open { url = three.url, session_timeout = 30 }
    local store = open { url = url, session_timeout = 4 }
    local lease = assert(store:lock(k, { timeout = 20 }))
    local held = assert(other:lock(k2, { timeout = 20 }))
    local e = common.engine(store)
    local ticket = e.start(k2, { 0, 0 }, 60)
    common.queued(k2, 2, three.urls[three:leader()])
    begin()
    for _, gate in ipairs(gates) do
      gate:refuse(true)
      gate:reset()
    end
    local next_one = assert(other:lock(k, { timeout = 30 }))
    assert.is_false(lease:held())
    assert.is_true(next_one.fence > lease.fence)
    common.eventually("it left the queue", function()
      return #common.nodes(k2 .. "/", three.urls[three:leader()]) == 1
    end)
    for _, gate in ipairs(gates) do
      gate:refuse(false)
    end
    assert.are.equal("lost", select(3, lease:extend()))
    assert.are.equal("lost", select(3, lease:release()))
    common.queued(k2, 2, three.urls[three:leader()])
    assert.is_true(held:release())
    local waited = assert(e.finish(ticket))
    assert.is_true(waited.fence > held.fence)
    assert.is_true(waited:release())
    assert.is_true(next_one:release())
    check(core.now())
  end)
end)
