-- What a store tells on_event by itself about Sentinels and about the servers
-- that they watch, on real ones: each thing once, when it begins and when it is
-- over.
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local redis = require "spec.support.redis"
local sentinel = require "spec.support.sentinel"

describe("the events of Sentinels:", function()
  local set, store, events

  before_each(function()
    -- No case needs a primary that is taken for dead, and a busy machine is
    -- silent for longer than the 0.2 s of other specs.
    set, events = sentinel.start { replicas = 1, down_after = 30000 }, {}
    store = assert(dlock.open { url = set.url, io_timeout = 5,
      on_event = function(event) events[#events + 1] = event end })
    assert(store:ping())
  end)

  after_each(function()
    store:close(1)
    set:stop()
  end)

  local function of(kind)
    local found = {}
    for _, event in ipairs(events) do
      if event.kind == kind then found[#found + 1] = event.message end
    end
    return found
  end

  -- The store's own connections are closed: the Sentinels need theirs.
  local function cut()
    local client = assert(set.nodes[1]:connect())
    for id, name in client:call("CLIENT", "LIST"):gmatch
        "id=(%d+) [^\n]*name=(%S*)" do
      if name == "dlock" then client:call("CLIENT", "KILL", "ID", id) end
    end
    client:close()
  end

  -- The store looks for the primary again, and has asked every Sentinel.
  local function look_again()
    local before = #of "connect"
    cut()
    eventually("another connection", 20, function()
      return store:ping() and #of "connect" > before
    end)
  end

  local function told(kind, count, ...)
    local parts = { ... }
    eventually(("%d events %s"):format(count, kind), 20, function()
      look_again()
      return #of(kind) >= count
    end)
    look_again()
    local list = of(kind)
    assert.equal(count, #list, table.concat(list, "\n"))
    for _, part in ipairs(parts) do
      assert.is_truthy(list[count]:find(part, 1, true), list[count])
    end
  end

  it("one that is gone, and comes back", function()
    local one = set.sentinels[2]
    assert.same({}, of "sentinel")
    one:kill()
    told("sentinel", 1, "/mymaster: the Sentinel 127.0.0.1:" .. one.port
      .. " does not answer (")
    assert.is_nil(of "sentinel"[1]:find "://.*://") -- that once is enough
    one:start_again()
    told("sentinel", 2, "127.0.0.1:" .. one.port, "answers again")
  end)

  it("none names a primary, and then they do", function()
    for _, one in ipairs(set.sentinels) do one:kill() end
    cut()
    eventually("four events", 20, function()
      store:ping()
      return #of "sentinel" >= 4
    end)
    assert.is_truthy(of "sentinel"[4]
      :find("none of its Sentinels names", 1, true))
    for _, one in ipairs(set.sentinels) do one:start_again() end
    told("sentinel", 8, "127.0.0.1:")
    local text = table.concat(of "sentinel", "\n")
    assert.is_truthy(text:find("name a primary again", 1, true), text)
  end)

  it("one more replica is a change of the servers", function()
    assert.same({}, of "topology")
    local more = redis.start { ["repl-diskless-sync-delay"] = 0,
      replicaof = "127.0.0.1 " .. set.nodes[1].port }
    set.nodes[#set.nodes + 1] = more
    set:settled()
    told("topology", 1, "127.0.0.1:" .. set.nodes[1].port, "2 replicas",
      "3 Sentinels")
  end)

  it("another primary is a change of the servers, beside the failover",
  function()
    local new = set:failover()
    eventually("the new one", 20, function()
      return store:ping() and #of "topology" > 0
    end)
    assert.equal(1, #of "failover")
    assert.equal(1, #of "topology")
    assert.is_truthy(of "topology"[1]:find(
      ("127.0.0.1:%d is the primary"):format(new.port), 1, true))
    for _, message in ipairs(of "disconnect") do -- from the other one
      assert.is_nil(message:find("127.0.0.1:" .. new.port, 1, true), message)
    end
  end)
end)
