-- redis+sentinel://: which server is found, and what is said when none is. What
-- Sentinels say is made up here, by servers that answer as they are told.
local core = require "dlock.core"
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local fake_server = require "spec.support.fake_server"
local redis = require "spec.support.redis"
local server = require "spec.support.server"

-- (Not by format(), which ends a text at a byte 0 in Lua 5.1.)
local function bulk(text)
  return "$" .. #tostring(text) .. "\r\n" .. tostring(text) .. "\r\n"
end

local function array(...)
  local parts = {}
  for i = 1, select("#", ...) do parts[i] = bulk((select(i, ...))) end
  return "*" .. #parts .. "\r\n" .. table.concat(parts)
end

-- What a Sentinel says that names that port, in the configuration of `epoch`
-- (nil: its user may not ask for it), and knows so many replicas and Sentinels.
local function naming(port, epoch, host, replicas, sentinels)
  host = host or "127.0.0.1"
  return {
    ["SENTINEL MASTER"] = epoch and array("name", "m", "ip", host, "port",
      port, "flags", "master", "config-epoch", epoch, "num-slaves",
      replicas or 1, "num-other-sentinels", (sentinels or 3) - 1)
      or "-NOPERM this user has no permissions to run 'sentinel|master'\r\n",
    ["SENTINEL GET-MASTER-ADDR-BY-NAME"] = array(host, port),
  }
end

local UNKNOWN = {
  ["SENTINEL MASTER"] = "-ERR No such master with that name\r\n",
  ["SENTINEL GET-MASTER-ADDR-BY-NAME"] = "*-1\r\n",
}

local MUTE = {
  ["SENTINEL MASTER"] = fake_server.SILENT,
  ["SENTINEL GET-MASTER-ADDR-BY-NAME"] = fake_server.SILENT,
}

-- The same, said so many seconds later.
local function slow(said, seconds)
  local late = {}
  for name, raw in pairs(said) do
    late[name] = { raw = raw, delay = seconds }
  end
  return late
end

describe("of servers that Sentinels name,", function()
  local opened, a, b = {}, nil, nil

  setup(function()
    local config = { ["repl-diskless-sync-delay"] = 0 }
    a, b = redis.start(config), redis.start(config)
  end)

  teardown(function()
    a:stop()
    b:stop()
  end)

  local function later(one)
    opened[#opened + 1] = one
    return one
  end

  after_each(function()
    for i = #opened, 1, -1 do
      local one = opened[i];
      (one.stop or one.close)(one)
      opened[i] = nil
    end
  end)

  local function url_of(list)
    local hosts = {}
    for i, one in ipairs(list) do hosts[i] = "127.0.0.1:" .. one.port end
    return "redis+sentinel://" .. table.concat(hosts, ",") .. "/m"
  end

  -- A store that asks fake Sentinels, which say this.
  local function asks(said, opts)
    local list = {}
    for i, rules in ipairs(said) do
      list[i] = later(fake_server.start(rules))
    end
    local all = { url = url_of(list), connect_timeout = 5, io_timeout = 5 }
    for name, value in pairs(opts or {}) do all[name] = value end
    return later(assert(dlock.open(all))), list
  end

  -- Whether that server is the one that a lock is set on.
  local function uses(store, node)
    local lease = assert(store:try_lock("k"))
    local client = node:connect()
    local found = client:call("EXISTS", "dlock:k")
    client:close()
    assert(lease:release())
    return found == 1
  end

  local function fails(store, code, ...)
    local before = core.now()
    local lease, message, got = store:try_lock("k")
    assert.is_nil(lease)
    assert.equal(code, got, message)
    for _, part in ipairs { ... } do
      assert.is_truthy(message:find(part, 1, true), message)
    end
    assert.is_true(core.now() - before < 6)
    return message
  end

  it("the one of the newest configuration is taken", function()
    local store = asks { naming(a.port, 3), naming(a.port, 3),
      naming(b.port, 4) }
    assert.is_true(uses(store, b))
  end)

  it("the one that most name is taken, if all are as new", function()
    for _, epoch in ipairs { 7, false } do
      local store = asks { naming(b.port, epoch), naming(a.port, epoch),
        naming(b.port, epoch) }
      assert.is_true(uses(store, b))
    end
  end)

  it("none is taken if they disagree, and both are named", function()
    fails(asks { naming(a.port, 3), naming(b.port, 3) }, "unavailable",
      "do not agree", "127.0.0.1:" .. a.port, "127.0.0.1:" .. b.port)
  end)

  it("what is wrong with the Sentinels is told once", function()
    local events = {}
    local function on_event(event)
      if event.kind == "sentinel" then
        events[#events + 1] = event.message
      end
    end
    local function expect(count, ...)
      assert.equal(count, #events, table.concat(events, "\n"))
      for _, part in ipairs { ... } do
        assert.is_truthy(table.concat(events, "\n"):find(part, 1, true), part)
      end
    end
    local store, said = asks({ naming(a.port, 3), naming(b.port, 3) },
      { on_event = on_event })
    fails(store, "unavailable", "do not agree")
    fails(store, "unavailable", "do not agree")
    expect(1, "do not agree", "127.0.0.1:" .. a.port, "127.0.0.1:" .. b.port)
    said[1]:rules(naming(b.port, 3))
    assert.is_true(uses(store, b))
    expect(2, "name a primary again")
    events = {}
    store = asks({ UNKNOWN, naming(b.port, 1),
      { AUTH = "-WRONGPASS no\r\n" } }, { on_event = on_event,
      sentinel_password = "hush" })
    assert.is_true(uses(store, b))
    eventually("what two of them say", 10, function()
      assert(store:ping())
      return #events == 2
    end)
    expect(2, "does not know a primary of the name 'm'", "refuses us")
    assert.is_nil(table.concat(events):find("hush", 1, true))
  end)

  -- false: a user that may not ask how new it is.
  for _, few in ipairs { { "know less than was known", 5 },
      { "do not say how new it is, when that was known", false } } do
    it("none is taken from few who " .. few[1], function()
      local store, said = asks({ naming(a.port, 5), naming(a.port, 5),
        naming(b.port, 6) }, { connect_timeout = 2, io_timeout = 2 })
      assert.is_true(uses(store, b))
      said[1]:rules(naming(a.port, few[2]))
      said[2]:stop()
      said[3]:stop()
      b:kill()
      fails(store, "unavailable", "behind what others said")
      b:start_again()
      fails(store, "unavailable", "behind what others said")
    end)
  end

  it("an older one is taken if most say so: they were reset", function()
    local store, said = asks { naming(b.port, 6), naming(b.port, 6),
      naming(b.port, 6) }
    assert.is_true(uses(store, b))
    for i = 1, 2 do said[i]:rules(naming(a.port, 0)) end
    said[3]:stop()
    b:kill()
    b:start_again()
    assert.is_true(uses(store, a))
  end)

  it("one is taken that fewer Sentinels name, when the others do not answer",
  function()
    local store, said = asks { naming(b.port, 1), naming(b.port, 1),
      naming(b.port, 1) }
    said[1]:stop()
    said[2]:rules { ["*"] = fake_server.SILENT }
    assert.is_true(uses(store, b))
  end)

  it("one that is named late is waited for", function()
    assert.is_true(uses(asks { slow(naming(b.port, 1), 0.5) }, b))
  end)

  it("one that the nearest names is not taken while most say nothing",
  function()
    assert.is_true(uses(asks { naming(a.port, 1),
      slow(naming(b.port, 2), 0.4), slow(naming(b.port, 2), 0.4) }, b))
    -- There are three: the third is not in the list.
    assert.is_true(uses(asks { naming(a.port, 1),
      slow(naming(b.port, 2), 0.4) }, b))
  end)

  -- Without half of them nobody fails over; the other half is heard later.
  it("one that few name is taken, and left when the others name another one",
  function()
    local store, said = asks({ naming(a.port, 1), MUTE, MUTE },
      { connect_timeout = 2, io_timeout = 30 })
    -- Until nobody waits for the other two any more.
    local started = core.now()
    repeat
      assert.is_true(uses(store, a))
    until core.now() - started > 2.5
    local new = naming(b.port, 2)
    for i = 2, 3 do
      said[i]:rules(new)
      -- To the question that each of them has not answered yet.
      said[i]:push(new["SENTINEL MASTER"]
        .. new["SENTINEL GET-MASTER-ADDR-BY-NAME"])
    end
    -- One that is taken there meanwhile may be lost.
    eventually("the newer one", 10, function()
      local fine, newer = pcall(uses, store, b)
      return fine and newer
    end)
    local old = a:connect()
    old:call "FLUSHALL"
    old:close()
  end)

  it("the Sentinels' password is in no message and in no event", function()
    for _, text in ipairs {
      "ERR unknown command `AUTH`, with args beginning with: `hunter2`, ",
      "ERR what is AUTH hunter2?", "WRONGPASS hunter2", "NOPERM AUTH hunter2",
    } do
      for _, close in ipairs { false, true } do
        local heard = {}
        local store = asks({ { AUTH = { raw = "-" .. text .. "\r\n",
          close = close } } }, { sentinel_password = "hunter2",
          on_event = function(e) heard[#heard + 1] = e.text or e.message end })
        local _, message, code = store:try_lock("k")
        assert.is_string(code)
        heard[#heard + 1] = message
        local all = table.concat(heard, "\n")
        assert.is_nil(all:find("hunter2", 1, true), all)
      end
    end
  end)

  -- Who waits has the Sentinels asked, and listens to one of them: what was
  -- said before it listened is made up for by a question that comes later.
  it("they are asked again when one is listened to in the middle of a round",
  function()
    local store, said = asks { slow(naming(a.port, 1), 0.5) }
    assert.is_true(uses(store, a))
    local asked = said[1]:count("SENTINEL MASTER")
    local client = a:connect()
    client:call("SET", "dlock:k", "another", "PX", 60000)
    assert.equal("timeout", select(3, store:lock("k", { timeout = 3 })))
    assert.equal(1, said[1]:count("SUBSCRIBE"))
    assert.is_true(said[1]:count("SENTINEL MASTER") > asked)
    client:call("DEL", "dlock:k")
    client:close()
  end)

  -- The stale one speaks when the time for all is over; what it says must not
  -- end the round before the others have had theirs.
  it("they all answer late, the stale one first: most of them count",
  function()
    for _, epochs in ipairs { { 1, 2 }, { 7, 7 } } do
      local told = {}
      local newer = slow(naming(a.port, epochs[2]), 0.7)
      local store = asks({ slow(naming(b.port, epochs[1]), 0.4), newer, newer },
        { on_event = function(event) told[#told + 1] = event.kind end })
      assert.is_true(uses(store, a))
      assert.same({ "connect" }, told)
    end
  end)

  -- A replica that is away follows another server, perhaps.
  it("replicas that only they know have to confirm, where all have to",
  function()
    local admin, events = a:connect(), {}
    later(redis.start { ["repl-diskless-sync-delay"] = 0,
      replicaof = "127.0.0.1 " .. a.port })
    admin:copied(1)
    admin:close()
    local store, said = asks({ naming(a.port, 1, nil, 2) },
      { wait_replicas = "all", on_event = function(event)
        events[#events + 1] = event.message
      end })
    fails(store, "unavailable", "1 of 2 replicas")
    assert.is_truthy(events[1]:find("1 of 2 replicas are there", 1, true),
      events[1])
    said[1]:rules(naming(a.port, 1, nil, 1)) -- SENTINEL RESET
    assert(assert(store:lock("k", { timeout = 20 })):release())
    said[1]:rules(naming(a.port, 1, nil, 2)) -- one that came and went
    eventually("they are asked while locks are given", 20, function()
      local lease, _, code = store:try_lock("k")
      if lease then assert(lease:release()) end
      return code == "unavailable"
    end)
  end)

  it('a Sentinel that may not say how many there are is an event, with "all"',
  function()
    local events = {}
    local store = asks({ naming(a.port) }, { wait_replicas = "all",
      wait_timeout = 0.1, on_event = function(event)
        events[#events + 1] = event.message
      end })
    fails(store, "unavailable", "0 of 1 replicas")
    assert.is_truthy(table.concat(events, "\n"):find("+sentinel|master", 1,
      true), table.concat(events, "\n"))
  end)

  -- What they answer in that round may be what they knew before.
  it("they are asked again when replicas are missed in the middle of a round",
  function()
    local store, said = asks({ naming(a.port, 1) }, { wait_replicas = 1 })
    assert(store:ping())
    said[1]:rules(slow(naming(a.port, 1), 1.5))
    local asked = said[1]:count("SENTINEL MASTER")
    for i = 1, 2 do -- the second one while they are asked because of the first
      assert.equal("unavailable", select(3, store:try_lock("k" .. i)))
      assert.is_truthy(said[1]:wait_for("SENTINEL MASTER", asked + 1))
    end
    assert.is_truthy(said[1]:wait_for("SENTINEL MASTER", asked + 2))
  end)

  it("one that knows more, but answers late, changes the topology once",
  function()
    local told, few = {}, naming(a.port, 1, nil, 1)
    local store, said = asks({ few, few, slow(naming(a.port, 1, nil, 2), 0.5) },
      { on_event = function(event)
        if event.kind == "topology" then told[#told + 1] = event.message end
      end })
    local client = a:connect()
    local function look_again()
      client:call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
      return store:ping()
    end
    eventually("four questions", 20, function()
      return look_again() and said[3]:count("SENTINEL MASTER") >= 4
    end)
    assert.is_true(#told <= 1, table.concat(told, "\n"))
    said[3]:stop()
    eventually("one that is gone does not count", 20, function()
      return look_again() and (told[#told] or ""):find("1 replica and", 1, true)
    end)
    client:close()
  end)

  it("a replica is none, and the Sentinels are asked again", function()
    local client = a:connect()
    client:call("REPLICAOF", "127.0.0.1", b.port)
    local store, said = asks { naming(a.port, 1) }
    local message = fails(store, "unavailable", "is a replica")
    assert.is_nil(message:find("READONLY", 1, true))
    said[1]:rules(naming(b.port, 2))
    assert.is_truthy(store:lock("k", { timeout = 10 }))
    client:call("REPLICAOF", "NO", "ONE")
    client:close()
  end)

  -- Its connection stands, and no Sentinel says +switch-master yet.
  it("another one is looked for when the replicas are there no more", function()
    local admin, old = b:connect(), a:connect()
    old:call("FLUSHALL")
    old:close()
    admin:call("REPLICAOF", "127.0.0.1", a.port)
    local store, said = asks({ naming(a.port, 1) }, { wait_replicas = 1 })
    assert(assert(store:lock("q", { timeout = 20 })):release())
    admin:call("REPLICAOF", "NO", "ONE")
    admin:close()
    later(redis.start { ["repl-diskless-sync-delay"] = 0,
      replicaof = "127.0.0.1 " .. b.port })
    said[1]:rules(naming(b.port, 2))
    local lease = assert(store:lock("q", { timeout = 20 }))
    local client = b:connect()
    assert.equal(1, client:call("EXISTS", "dlock:q"))
    client:close()
    assert(lease:release())
  end)

  it("a name that nobody knows is invalid", function()
    fails(asks { UNKNOWN, UNKNOWN, UNKNOWN }, "invalid", "'m'",
      "SENTINEL MASTERS")
    assert.is_true(uses(asks { UNKNOWN, naming(b.port, 2) }, b))
  end)

  it("a server that is no Sentinel is told from one", function()
    local store = later(assert(dlock.open(url_of { a })))
    fails(store, "invalid", "127.0.0.1:" .. a.port, "is no Sentinel")
  end)

  it("none is found when no Sentinel answers, and that is said", function()
    local store = later(assert(dlock.open { url = url_of {
      { port = server.free_port() }, { port = server.free_port() } },
      connect_timeout = 1 }))
    fails(store, "unavailable", "no Sentinel answers", "Connection refused")
  end)

  it("an address is looked up in address_map", function()
    local store = asks({ naming(6379, 1, "10.255.1.2") }, { address_map = {
      ["10.255.1.2:6379"] = "127.0.0.1:" .. b.port } })
    assert.is_true(uses(store, b))
    store = asks({ naming(6379, 1, "fd00::7") }, { address_map = {
      ["[fd00::7]:6379"] = "localhost:" .. b.port } })
    assert.is_true(uses(store, b))
  end)

  it("odd answers are no answers", function()
    for _, said in ipairs { "*0\r\n", array("h"), array("h", "x"),
        array("h", 0), array("h", 65536), array("", 6379), ":5\r\n",
        array("127.0.0.1\0", a.port), array("127.0.0.1\r\n", a.port),
        array("127.0.0.1", a.port .. "x"), array("\27[31m", 6379),
        array(("h"):rep(300), 6379) } do
      local store, list = asks { { ["SENTINEL MASTER"] = said,
        ["SENTINEL GET-MASTER-ADDR-BY-NAME"] = said } }
      fails(store, "unavailable", ("the Sentinel 127.0.0.1:%d answers what"
        .. " is no address"):format(list[1].port))
    end
  end)

  -- Answers by chance: of all types, with any bytes, nested, and with some that
  -- are right in between.
  it("no answer gets a control byte into a message, or takes long", function()
    local seed = tonumber(os.getenv "SEED") or os.time()
    math.randomseed(seed)
    local said = { function()
      local bytes = {}
      for i = 1, math.random(0, 40) do bytes[i] = string.char(math.random(256)
        - 1) end
      return bulk(table.concat(bytes))
    end }
    said[2] = function()
      return "-ERR " .. said[1]():gsub("[\r\n]", "\7") .. "\r\n"
    end
    said[3] = function() return ("+\27%d\r\n"):format(math.random(9)) end
    said[4] = function() return (":%d\r\n"):format(math.random(99999)) end
    said[5] = function()
      return math.random(2) == 1 and "$-1\r\n" or "*-1\r\n"
    end
    said[6] = function()
      return bulk(math.random(2) == 1 and a.port or "::1")
    end
    said[7] = function() return bulk(math.random(2) == 1 and "ip" or "port") end
    said[8] = function()
      local list = {}
      for i = 1, math.random(0, 3) do list[i] = said[math.random(8)]() end
      return ("*%d\r\n"):format(#list) .. table.concat(list)
    end
    local function host_and_port()
      return "*2\r\n" .. said[math.random(2) == 1 and 1 or 6]() .. bulk(a.port)
    end
    local store, list = asks({ {} }, { connect_timeout = 0.15,
      io_timeout = 0.15, prefix = "odd:", on_event = function(event)
        assert.is_nil(event.message:find "%c", ("SEED=%d %q"):format(seed,
          event.message))
      end })
    for _ = 1, 40 do
      list[1]:rules { ["SENTINEL MASTER"] = said[math.random(8)](),
        ["SENTINEL GET-MASTER-ADDR-BY-NAME"] = math.random(3) == 1
          and said[math.random(8)]() or host_and_port() }
      local before = core.now()
      local lease, message = store:try_lock("k")
      assert.is_true(core.now() - before < 5)
      if lease then lease:release() else
        assert.is_nil(message:find "%c", ("SEED=%d %q"):format(seed, message))
      end
    end
  end)
end)
