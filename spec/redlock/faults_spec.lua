-- Redlock where servers die, hang, restart or lose their counters.
local dlock = require "dlock"
local lockable = require "dlock.lockable"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local redlock = require "spec.support.redlock"
local server = require "spec.support.server"
local stores = require "dlock.store"
local text = require "dlock.text"
local uv = require "luv"

local texts = require("spec.sim.redis_model").texts()

local function seconds(fn)
  local start = uv.hrtime()
  fn()
  return (uv.hrtime() - start) / 1e9
end

local function code_of(_, _, code) return code end

-- Half a millisecond of a fast machine; the median says what most calls take.
local function median(count, fn)
  local all = {}
  for i = 1, count do all[i] = seconds(fn) end
  table.sort(all)
  return all[math.ceil(count / 2)]
end

describe("on Redlock,", function()
  local set, store, key, count

  local function start(opts)
    set = redlock.start(opts)
  end

  local function open(opts)
    opts = opts or {}
    opts.url = set.url
    store = assert(dlock.open(opts))
    return store
  end

  before_each(function()
    count = (count or 0) + 1
    key = "k" .. count
  end)

  after_each(function()
    process.close_all()
    for _, node in ipairs(set and set.nodes or {}) do node:resume() end
    if store then store:close(1) end
    if set then set:stop() end
    set, store = nil, nil
  end)

  local function votes() return set:votes(key) end

  local function pair()
    local lease = assert(store:lock(key))
    assert(lease:release())
  end

  it("two of five may be down: locks are given and kept", function()
    start()
    open()
    local lease = assert(store:lock(key, { ttl = 1 }))
    set.nodes[1]:kill()
    set.nodes[4]:kill()
    uv.sleep(1500)
    assert.is_true(lease:held())
    assert.are.same({ key }, (store:list(key)))
    assert(lease:release())
    pair()
  end)

  it("two down and one that refuses for good are unavailable together",
  function()
    start()
    local client = set.nodes[1]:connect()
    client:call("CONFIG", "SET", "requirepass", "secret")
    client:close()
    open { node_timeout = 1 }
    pair()
    for i = 2, 3 do set.nodes[i]:kill() end
    local fresh = assert(dlock.open { url = set.url, node_timeout = 1 })
    finally(function() fresh:close(1) end)
    local _, message, code = fresh:try_lock(key)
    assert.equal("unavailable", code)
    assert.matches("fewer than 3 of 5 nodes voted: .*NOAUTH", message)
    assert.equal("unavailable", select(3, fresh:ping()))
    for i = 2, 3 do set.nodes[i]:start_again() end
    assert(assert(fresh:lock(key, { timeout = 20 })):release())
  end)

  it("with three of five down it is unavailable, and nothing is left",
  function()
    start()
    open { node_timeout = 1 }
    pair()
    for i = 1, 3 do set.nodes[i]:kill() end
    local message, code
    local took = seconds(function()
      message, code = select(2, store:try_lock(key))
    end)
    assert.are.equal("unavailable", code)
    assert(message:find("^unavailable: .*fewer than 3 of 5 nodes voted"),
      message)
    assert(took < 1, took)
    loop.eventually("nothing left", 5, function() return votes() == 0 end)
    assert.are.equal("unavailable",
      code_of(store:lock(key, { timeout = 0.3 })))
    assert.are.equal("unavailable", code_of(store:list(key)))
    for i = 1, 3 do set.nodes[i]:start_again() end
    assert(assert(store:lock(key, { timeout = 10 })):release())
  end)

  it("two that hang slow nobody down", function()
    start()
    open()
    local before = median(30, pair)
    set.nodes[2]:pause()
    set.nodes[5]:pause()
    local behind = median(30, pair)
    assert(behind < 4 * before + 0.01, ("%.4f %.4f"):format(before, behind))
  end)

  it("a hold outlives the restart of each node in turn", function()
    start { config = {} }
    open { max_ttl = 1 }
    local lease
    loop.eventually("nodes that are old enough", 20, function()
      lease = store:try_lock(key, { ttl = 1 })
      return lease
    end)
    loop.eventually("all votes", 10, function() return votes() == 5 end)
    for _, node in ipairs(set.nodes) do
      node:kill()
      node:start_again()
      assert.is_true(lease:held())
      loop.eventually("the vote again", 15, function() return votes() == 5 end)
      assert.is_true(lease:held())
    end
    assert(lease:release())
  end)

  it("a node that forgot votes for nobody until max_ttl has passed", function()
    start { count = 3, config = {} }
    open { max_ttl = 1 }
    loop.eventually("nodes that are old enough", 20, function()
      local lease = store:try_lock(key, { ttl = 1 })
      return lease and lease:release()
    end)
    local lease = assert(store:lock(key, { ttl = 1, renew = false }))
    for i = 1, 2 do
      set.nodes[i]:kill()
      set.nodes[i]:start_again()
    end
    local rival = assert(dlock.open { url = set.url, max_ttl = 1 })
    local got, message, code = rival:try_lock(key, { ttl = 1 })
    assert.is_nil(got)
    assert.are.equal("unavailable", code)
    assert.matches("less than max_ttl and 2 s ago .*it votes in", message)
    local late = assert(rival:lock(key, { ttl = 1, timeout = 20 }))
    assert.is_false(lease:held())
    assert(late.fence > lease.fence)
    rival:close(1)
  end)

  -- The key is free there, which is no reason to ask at once again.
  it("those who wait for nodes that are too young ask them seldom", function()
    start { count = 3, config = {} }
    open { max_ttl = 60 }
    local function commands()
      local most = 0
      set:each(function(client)
        most = math.max(most, tonumber(client:call("INFO", "stats")
          :match("total_commands_processed:(%d+)")))
      end)
      return most
    end
    assert.are.equal("unavailable", code_of(store:try_lock(key, { ttl = 1 })))
    local before = commands()
    local _, message, code = store:lock(key, { ttl = 1, timeout = 2 })
    assert.are.equal("unavailable", code)
    assert(message:find("it votes in", 1, true), message)
    local asked = commands() - before
    assert(asked < 100, asked)
  end)

  it("a round ends after 3 s, though to connect may take longer", function()
    start()
    open { connect_timeout = 20, io_timeout = 30 }
    for i = 1, 3 do set.nodes[i]:pause() end
    local took = seconds(function()
      assert.are.equal("unavailable", code_of(store:try_lock(key)))
    end)
    assert(took < 10, took)
  end)

  it("a vote that is made anew keeps to the first one's min_hold", function()
    start { count = 3 }
    open()
    local lease = assert(store:lock(key, { ttl = 3, min_hold = 30 }))
    loop.eventually("all votes", 10, function() return votes() == 3 end)
    uv.sleep(1500)
    local client = set.nodes[3]:connect()
    client:call("DEL", "dlock:" .. key)
    loop.eventually("the vote again", 60, function() return votes() == 3 end)
    assert(store:inspect(key)) -- answered behind the vote
    assert(lease:release())
    local rest = client:call("PTTL", "dlock:" .. key)
    client:close()
    client = set.nodes[1]:connect()
    local first = client:call("PTTL", "dlock:" .. key)
    client:close()
    assert(math.abs(rest - first) < 1000, ("%d %d"):format(rest, first))
  end)

  it("a counter that another program filled gives no vote", function()
    start()
    open()
    assert(assert(store:lock(key)):release())
    local function fill(most)
      set:each(function(client, i)
        local name = client:call("KEYS", "~dlock:*:v:dlock:" .. key)[1]
        if name and i <= most then
          client:call("HSET", name, "fence", "99999999999999")
        end
      end)
    end
    loop.eventually("nothing left", 10, function() return votes() == 0 end)
    fill(2)
    local lease = assert(store:lock(key, { timeout = 20 }))
    assert(lease.fence < 99999999999999, lease.fence)
    assert(lease:release())
    fill(5)
    local _, message, code = store:lock(key, { timeout = 20 })
    assert.are.equal("invalid", code, message)
    assert(message:find("fence counter", 1, true), message)
  end)

  it("an extension that reaches two of five changes no deadline", function()
    start()
    open()
    local lease = assert(store:lock(key, { ttl = 2, renew = false }))
    for i = 1, 3 do set.nodes[i]:pause() end
    local before = lease:remaining()
    assert.are.equal("unavailable", code_of(lease:extend(20)))
    assert(lease:remaining() < before)
    assert(lease:wait_lost(5))
    assert.is_false(lease:held())
  end)

  it("fences rise over counters that differ, or are missing", function()
    start()
    open()
    local last = 0
    for i = 1, 60 do
      set:each(function(client, at)
        local name = client:call("KEYS", "~dlock:*:v:dlock:" .. key)[1]
        if name and (i + at) % 5 == 0 then
          client:call("HINCRBY", name, "fence", (i * 7 + at) % 40)
        elseif name and i % 5 == 3 and at == i % 3 + 1 then
          client:call("DEL", name)
        end
      end)
      local lease = assert(store:lock(key))
      assert(lease.fence > last, ("%d: %d %d"):format(i, last, lease.fence))
      last = lease.fence
      assert(lease:release())
    end
  end)

  it("what goes wrong with a detached lease is told with its key", function()
    start()
    open { node_timeout = 1, io_timeout = 3 }
    local function prolong(word)
      return lockable.ask({ client = stores.client(store) }, "prolong",
        text.of_word(word), 5)
    end
    local word = assert(assert(store:lock(key, { ttl = 20 })):detach())
    assert(assert(store:attach(word)):release())
    assert.matches(("^lost: '%s': the detached lease expired, was attached, "
      .. "released or broken"):format(key), (select(2, store:attach(word))))
    assert.matches("^lost: '" .. key, (select(2, prolong(word))))
    word = assert(assert(store:lock(key, { ttl = 20 })):detach())
    for i = 1, 3 do set.nodes[i]:pause() end
    assert.matches("^unavailable: '" .. key, (select(2, prolong(word))))
    assert.matches("^unavailable: '" .. key, (select(2, store:attach(word))))
  end)

  it("a detached lease that a silent server may have is not lost", function()
    start()
    open { node_timeout = 1, io_timeout = 3 }
    local lease = assert(store:lock(key, { ttl = 20 }))
    loop.eventually("all votes", 5, function() return votes() == 5 end)
    assert(store:ping())
    for i = 4, 5 do
      local client = set.nodes[i]:connect()
      client:call("DEL", "dlock:" .. key)
      client:close()
    end
    local word = assert(lease:detach())
    set.nodes[1]:pause()
    local _, message, code = store:attach(word)
    assert.are.equal("unavailable", code, message)
    set.nodes[1]:resume()
    loop.eventually("the string has its token again", 15, function()
      lease = store:attach(word)
      return lease and lease:release()
    end)
  end)

  it("a counter of another type is told with its name", function()
    start { count = 3 }
    open { node_timeout = 1 }
    pair()
    set:each(function(client)
      for _, name in ipairs(client:call("KEYS", "~dlock:*:v:dlock:" .. key)) do
        client:call("SET", name, "text")
      end
    end)
    local _, message, code = store:try_lock(key)
    assert.are.equal("invalid", code, message)
    assert(message:find("~dlock:{", 1, true), message)
  end)

  -- A vote has no fence where the key has no counter.
  it("a holder's fence is told to those who wait for another leader",
  function()
    start { count = 1 }
    local client, watcher = set.nodes[1]:connect(), set.nodes[1]:connect()
    finally(function()
      client:close()
      watcher:close()
    end)
    client:call("SET", "lock", "token", "PX", 60000)
    client:call("HSET", "info", "token", "0 1700000000000 value")
    watcher:call("SUBSCRIBE", "news of it")
    local function raise()
      client:call("ZADD", "news", 1, "news of it")
      assert(client:call("EVAL", texts.raise, 6, "lock", "counter", "holders",
        "permits", "info", "news", "token", 60000, "7", 0, 0, 60000,
        "process") > 0)
    end
    raise()
    assert.are.same({ "message", "news of it", "c lock" }, watcher:read())
    assert.are.equal("7 1700000000000 value",
      client:call("HGET", "info", "token"))
    raise()
    assert.are.equal(1, client:call("EXISTS", "news")) -- nothing is new
  end)

  it("a vote that was taken away counts no longer", function()
    start()
    open()
    local lease = assert(store:lock(key, { ttl = 1 }))
    loop.eventually("all votes", 5, function() return votes() == 5 end)
    set:each(function(client, i)
      if i <= 3 then client:call("SET", "dlock:" .. key, "x", "PX", 60000) end
    end)
    assert(lease:wait_lost(5))
    loop.eventually("the rest given back", 5, function()
      return votes() == 3
    end)
  end)

  it("sixteen processes race: one holds at a time, and each in the end",
  function()
    start()
    local dir, racers, fences = server.new_dir(), {}, {}
    for i = 1, 16 do
      racers[i] = process.spawn { script = [[
        local dlock, uv = require "dlock", require "luv"
        local store = assert(dlock.open(arg[1]))
        for _ = 1, 4 do
          local lease = assert(store:lock("race", { timeout = 120 }))
          local mark = assert(uv.fs_open(arg[2], "wx", 384)) -- nobody else's
          uv.sleep(2)
          assert(lease:held())
          uv.fs_close(mark)
          uv.fs_unlink(arg[2])
          assert(lease:release())
          print(("%.0f"):format(lease.fence))
        end
        store:close()
      ]], args = { set.url, dir .. "/mark" } }
    end
    for i = 1, 16 do
      for _ = 1, 4 do
        local fence = assert(racers[i]:read_line(120))
        assert(fence:find("^%d+$"), fence)
        assert.is_nil(fences[fence])
        fences[fence] = true
      end
    end
    server.remove_dir(dir)
  end)
end)
