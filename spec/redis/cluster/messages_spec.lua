-- redis+cluster://: by which messages locks are handed on.
local cluster = require "spec.support.cluster"
local core = require "dlock.core"
local dlock = require "dlock"
local loop = require "spec.support.loop"
local eventually = loop.eventually
local fake_server = require "spec.support.fake_server"
local process = require "spec.support.process"

describe("of the messages in a cluster,", function()
  local set, opened

  setup(function() set = cluster.start { replicas = 0 } end)
  teardown(function() set:stop() end)

  before_each(function() opened = {} end)
  after_each(function()
    process.close_all()
    for i = #opened, 1, -1 do
      local one = opened[i]
      one[one.stop and "stop" or "close"](one, 1)
    end
  end)

  local function open(url, opts)
    local all = { url = url or set.url }
    for name, value in pairs(opts or {}) do all[name] = value end
    opened[#opened + 1] = assert(dlock.open(all))
    return opened[#opened]
  end

  -- How many sharded channels have a listener, on one node or all.
  local function channels(node)
    local count = 0
    for _, one in ipairs(node and { node } or set.nodes) do
      count = count + #one:call("PUBSUB", "SHARDCHANNELS")
    end
    return count
  end

  -- A process that waits for the key, tells when it has it, and lets it go.
  local function waiter(key)
    local one = process.spawn { script = [[
      local store = require("dlock").open(arg[1])
      local lease = assert(store:lock(arg[2], { timeout = 30 }))
      print(("%.6f"):format(require("dlock.core").now()))
      lease:release()
      store:close(1)
    ]], args = { set.url, key } }
    eventually("a place in the queue", 60, function()
      local found = opened[1]:inspect(key)
      return found and #found.waiters == 1
    end)
    return one
  end

  -- Releases, and returns how long the waiter took.
  local function handed(lease, one)
    local from = core.now()
    assert.is_true(lease:release())
    assert.equal(0, (one:wait(60)), one.err)
    return tonumber(one.out) - from
  end

  it("one reaches the next, and no node but the slot's", function()
    local store, fastest = open(), 1
    for _ = 1, 5 do
      local lease = assert(store:lock("handed"))
      fastest = math.min(fastest, handed(lease, waiter "handed"))
    end
    assert.is_true(fastest < 0.1 * loop.patience, fastest)
    for _, node in ipairs(set.nodes) do
      local sent = node:call("CLUSTER", "INFO")
        :match("cluster_stats_messages_publish_sent:(%d+)")
      assert.is_nil(sent)
    end
  end)

  it("those of a slot follow it, before any request", function()
    local store, slot, fastest = open(), set:slot_of "moved", 1
    for _ = 1, 3 do
      local lease = assert(store:lock("moved"))
      local one, from, to = waiter "moved", set:owner(slot), set:other(slot)
      set:move(slot, to)
      eventually("a listener at the new owner", 2 * loop.patience, function()
        return channels(to) > 0 and channels(from) == 0
      end)
      fastest = math.min(fastest, handed(lease, one))
    end
    assert.is_true(fastest < 0.1 * loop.patience, fastest)
  end)

  it("those of slots without a wait or hold end", function()
    local store = open()
    local kept = assert(store:lock("kept", { ttl = 1 }))
    local rival = open()
    for i = 1, 10 do
      local lease = assert(rival:lock("ended" .. i))
      assert.is_nil(store:lock("ended" .. i, { timeout = 0.1 }))
      assert.is_true(lease:release())
    end
    assert.is_true(rival:close(1))
    assert.is_true(channels() >= 10)
    local slot = set:slot_of "ended1"
    set:move(slot, set:other(slot))
    assert(store:lock("ended1")):release()
    eventually("few channels", 60, function() return channels() <= 2 end)
    assert.is_true(kept:release())
  end)

  local function bulk(text) return ("$%d\r\n%s\r\n"):format(#text, text) end

  local BUSY = "*2\r\n" .. bulk "busy" .. bulk "there"
  local WAIT = "*7\r\n" .. bulk "wait" .. ":-1\r\n:1\r\n" .. bulk "1"
    .. ":0\r\n" .. bulk "there" .. ":0\r\n"

  -- A node of that version, on which another client holds every lock.
  local function held_by_others(version)
    local node = fake_server.start({}, { version = version })
    opened[#opened + 1] = node
    node.all = ("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n%s:%d\r\n%s"):format(
      bulk "127.0.0.1", node.port, bulk(("%x"):format(node.port):rep(10)))
    node.says = {
      ["INFO SERVER"] = bulk("redis_version:" .. version
        .. "\r\nredis_mode:cluster\r\n"),
      ["CLUSTER SLOTS"] = node.all,
      EVALSHA = { BUSY, WAIT },
    }
    node:rules(node.says)
    return node
  end

  local function waits(node, timeout)
    return open("redis+cluster://127.0.0.1:" .. node.port):lock("k",
      { timeout = timeout })
  end

  it("a node before 7.0 has classic ones, and its scripts too", function()
    for version, sharded in pairs { ["7.0.0"] = true, ["6.2.0"] = false } do
      local node = held_by_others(version)
      node.says.EVALSHA = BUSY -- no answer to a join, which is taken back
      node:rules(node.says)
      assert.is_nil((waits(node, 0.5)))
      assert.equal(sharded, node:count "SSUBSCRIBE" > 0)
      local text = table.concat(node:log())
      assert.equal(sharded, text:find "SHARDNUMSUB" ~= nil)
      assert.equal(not sharded, text:find "'NUMSUB'" ~= nil)
    end
  end)

  it("a slot that is not there is asked for where the map says", function()
    local a, b = held_by_others "7.0.0", held_by_others "7.0.0"
    a.says.SSUBSCRIBE = ("-MOVED 1 127.0.0.1:%d\r\n"):format(b.port)
    a.says["CLUSTER SLOTS"] = { a.all, b.all }
    a:rules(a.says)
    assert.is_nil((waits(a, 1.5)))
    assert.equal(1, b:count "SSUBSCRIBE")
    assert.is_true(a:count "SSUBSCRIBE" <= 2)
  end)

  it("without the right to them a wait is denied", function()
    local node = held_by_others "7.0.0"
    node.says.SSUBSCRIBE = "-NOPERM no permission for 'ssubscribe'\r\n"
    node:rules(node.says)
    local ok, message, code = waits(node, 5)
    assert.is_nil(ok)
    assert.equal("denied", code, message)
  end)
end)
