-- What a server says in a crisis, one error at a time, mostly from a fake
-- server. One table decides what each error means, and no broken reply does
-- harm.

local core = require "dlock.core"
local dlock = require "dlock"
local fake_server = require "spec.support.fake_server"
local process = require "spec.support.process"
local redis = require "spec.support.redis"
local steady = require "spec.support.steady"
local uv = require "luv"

local SCRIPT = "ERR Error running script (call to f_0123): @user_script:1: "
  .. "@user_script: 1: "

local function open(f, more)
  local opts = { url = f.url, connect_timeout = 5, io_timeout = 5 }
  for name, value in pairs(more or {}) do opts[name] = value end
  return assert(dlock.open(opts))
end

-- This once, then well again.
local function once(reply)
  return { reply, fake_server.DEFAULT }
end

-- A store that has used "k" on its connection, so that its counter is known;
-- then the server goes by the rules.
local function warm(f, rules, more)
  local store = open(f, more)
  assert(assert(store:try_lock("k")):release())
  if rules then f:rules(rules) end
  return store
end

-- What a try at this server brings that gets this reply; shared: to the script
-- for those.
local function try(f, reply, shared)
  local script = shared and " TRY" or " TAKE"
  f:rules()
  local store = warm(f, { ["EVALSHA" .. script] = reply,
    ["EVAL" .. script] = reply })
  local lock = shared and store:rwlock("k"):read() or store:mutex("k")
  local lease, message, code = lock:try_acquire()
  store:close(0.2)
  return lease and "ok" or code, lease and "ok" or message
end

-- Refuses one call of a script on so many keys, the first one: it loads. The
-- others of it find so many ms left.
local function refuses_once(keys, left, which)
  return ("local keys, left, which = %q, %d, %d\n"):format(keys, left,
    which or 1) .. [[
    return function(name, words)
      if name ~= "EVALSHA" or words[3] ~= keys then
        return true
      end
      which = which - 1
      if which == 0 then
        return "-LOADING Redis is loading the dataset in memory\r\n"
      end
      return (":%d\r\n"):format(left)
    end]]
end

local RENEW = "5" -- the keys of the script that extends and detaches

-- The ttl that each of its calls asked for.
local function asked(f)
  local list = {}
  for _, line in ipairs(f:log()) do
    local ttl = line:match("^EVALSHA %x+ " .. RENEW .. " .*:%x+:%S* (%d+) ")
    list[#list + 1] = tonumber(ttl)
  end
  return list
end

local function finish(ticket)
  repeat
    local done = core.drive(ticket, 0.2)
  until done
  return ticket:take()
end

describe("redis errors:", function()
  local timed = steady(nil, process.close_all)

  it("an error that will not pass is reported at once", function()
    local f = fake_server.start()
    for word, code in pairs {
      ["OOM command not allowed when used memory > 'maxmemory'."] =
        "unavailable",
      ["MISCONF Redis is configured to save RDB snapshots"] = "unavailable",
      ["NOREPLICAS Not enough good replicas to write."] = "unavailable",
      ["NOPERM this user has no permissions to run 'set'"] = "denied",
      ["NOAUTH Authentication required."] = "denied",
      ["MOVED 3999 127.0.0.1:6381"] = "unsupported",
      ["ASK 3999 127.0.0.1:6381"] = "unsupported",
      ["WRONGTYPE Operation against a key"] = "invalid",
      ["ERR something nobody knows"] = "unavailable",
      ["SURPRISE!"] = "unavailable",
      ["NOAUTHORITY is no NOAUTH"] = "unavailable",
    } do
      local reply = "-" .. word .. "\r\n"
      for _, shared in ipairs { false, true } do
        local got, text = try(f, reply, shared)
        assert.are.equal(code, got, text)
        assert.is_truthy(text:find(word:match("^%S+"), 1, true), text)
      end
    end
  end)

  it("an error that will not pass ends a wait at the first request", function()
    local f = fake_server.start()
    local store = warm(f, { ["EVALSHA TAKE"] = "-OOM command not allowed\r\n" })
    local _, _, digests = require("spec.sim.redis_model").texts()
    local take = "EVALSHA " .. digests.take
    local before = f:count(take)
    local _, _, code = store:lock("k", { timeout = 5 })
    assert.are.equal("unavailable", code)
    assert.are.equal(before + 1, f:count(take))
    store:close(0.2)
  end)

  it("an error that passes is tried again until it did", function()
    local f = fake_server.start()
    for _, word in ipairs {
      "LOADING Redis is loading the dataset in memory",
      "BUSY Redis is busy running a script",
      "READONLY You can't write against a read only replica.",
      "CLUSTERDOWN The cluster is down", "TRYAGAIN Multiple keys",
      "MASTERDOWN Link with MASTER is down",
    } do
      for _, text in ipairs { word, SCRIPT .. "-" .. word } do
        f:rules(("local n, text = 0, %q\n"):format("-" .. text .. "\r\n") .. [[
          return function(name, words)
            if n > 0 and n < 4 and acquires(words) then
              n = n + 1
              return text
            end
            n = math.max(n, script_of(words) == "RELEASE" and 1 or 0)
            return true
          end]])
        local store = warm(f)
        local lease, message = store:lock("k", { timeout = 5 })
        assert.is_truthy(lease, message)
        store:close(0.2)
      end
    end
  end)

  it("a detach comes after the repeated requests of its lease", function()
    local f = fake_server.start(refuses_once(RENEW, 20000))
    local store = open(f)
    local lease = assert(store:try_lock("k", { ttl = 30 }))
    local extension = core.extend(lease, 3)
    local text = assert(finish(core.detach(lease)))
    assert(finish(extension))
    -- Who attaches it counts on what the server was told last.
    assert.are.same({ 3000, 3000, 3000 }, asked(f))
    assert.are.equal("3000", text:match("^r:2 (%d+) "), text)
    store:close(0.2)
  end)

  it("nothing is tried again for a lease that is released", function()
    local f = fake_server.start(refuses_once(RENEW, 20000, 2))
    local store = open(f)
    local lease = assert(store:try_lock("k", { ttl = 5, min_hold = 1 }))
    local extension = core.extend(lease, 30)
    finish(core.release(lease)) -- the key stays for a second, and no longer
    assert.are.equal("lost", select(3, finish(extension)))
    assert.are.same({ 5000, 30000 }, asked(f)) -- the grant's, the extension's
    store:close(0.2)
  end)

  it("a server that stays so is unavailable, with its own words", function()
    local f = fake_server.start {
      MULTI = "-LOADING Redis is loading\r\n",
    }
    local store = open(f)
    local got, message, code = store:lock("k", { timeout = 1 })
    assert.is_nil(got)
    assert.are.equal("unavailable", code)
    assert.is_truthy(message:find("LOADING", 1, true), message)
    store:close()
  end)

  it("a refusal is told to who comes between two attempts to connect",
    function()
      local server = redis.start { requirepass = "secret" }
      local store = open(server, { timeout = 10 })
      local function code_of(opts)
        local lease, _, code = store:lock("k", opts)
        return lease and lease:release() and "ok" or code
      end
      assert.equal("denied", code_of())
      for _ = 1, 10 do
        assert.equal("denied", code_of { timeout = 0.05 })
        assert.equal("denied", select(3, store:ping(0.05)))
      end
      local canceller = dlock.canceller()
      canceller:cancel()
      assert.equal("cancelled", code_of { cancel = canceller })
      local r = assert(redis.connect((server.url:gsub("//", "//:secret@"))))
      r:call("CONFIG", "SET", "requirepass", "")
      local late = core.now() + 20
      repeat
        local code = code_of()
        assert(core.now() < late, code)
      until code == "ok"
      r:call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
      server:pause()
      assert.equal("unavailable", code_of { timeout = 0.05 })
      server:resume()
      r:call("CONFIG", "SET", "requirepass", "secret")
      r:call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
      r:close()
      assert.equal("denied", code_of())
      server:kill()
      repeat
        local code = code_of { timeout = 0.05 }
        assert(core.now() < late, code)
      until code == "unavailable"
      store:close(1)
      server:stop()
    end)

  it("READONLY: another connection is asked, it may be another server's",
    function()
    local f = fake_server.start("local first\n" .. [[
      return function(name, words, client)
        if not acquires(words) then return true end
        first = first or client
        return client ~= first or "-READONLY You can't write\r\n"
      end]])
    local store = open(f)
    local lease, message = store:lock("k", { timeout = 5 })
    assert.is_truthy(lease, message)
    store:close(0.2)
  end)

  it("NOSCRIPT: the text is sent", function()
    local f = fake_server.start {
      EVALSHA = "-NOSCRIPT No matching script.\r\n",
    }
    local store = open(f)
    local lease = assert(store:try_lock("k"))
    assert(lease:release())
    assert.are.equal(2, f:count("EVALSHA"))
    assert.are.equal(2, f:count("EVAL"))
    store:close()
  end)

  it("replies that are broken end the connection, not the program",
    function()
    local f = fake_server.start()
    for _, reply in ipairs {
      "*2147483647\r\n",
      "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n+x\r\n",
      "$999999999999\r\n", "$-5\r\n", ":12a\r\n", ":\r\n", "$\r\n",
      "%1\r\n+a\r\n+b\r\n",
      "#t\r\n", "+no\nend\r\n", "*-7\r\n", ":99999999999999999999999\r\n",
      "hello\r\n", "\0\0\0\0", "*1000000\r\n" .. ("*1000000\r\n"):rep(3),
    } do
      for _, shared in ipairs { false, true } do
        local got, text = try(f, once(reply), shared)
        assert.are.equal("ok", got, text)
      end
    end
  end)

  it("bytes that would move a reader's cursor are not passed on", function()
    local got, text =
      try(fake_server.start(), "-ERR \27[2J\7 gone\127\r\n")
    assert.are.equal("unavailable", got)
    assert.is_truthy(text:find("ERR ?[2J? gone?", 1, true), text)
  end)

  it("replies of another shape than asked for are no lock", function()
    local f = fake_server.start()
    for _, reply in ipairs {
      "+OK\r\n", ":1\r\n", "*0\r\n", "*-1\r\n", "$-1\r\n", "$2\r\nOK\r\n",
      "*1\r\n+OK\r\n", "*3\r\n+OK\r\n:35184372088833\r\n:1\r\n",
      "*2\r\n:1\r\n:2\r\n", "*2\r\n+OK\r\n+OK\r\n",
      "*2\r\n+OK\r\n$-1\r\n", "-\r\n",
    } do
      local got, text = try(f, reply, true)
      assert.are.equal("unavailable", got, text)
      got, text = try(f, reply)
      local due = reply == "$2\r\nOK\r\n" and "busy" -- whose it is
        or reply:find "^[$*]%-1" and "ok" or "unavailable" -- asked otherwise
      assert.are.equal(due, got, text)
    end
  end)

  it("a reply that trickles in is a reply", function()
    local raw = ":35184372088833\r\n"
    local proxy = require "spec.support.proxy"
    local f = fake_server.start()
    local p = proxy.start(f.url)
    p:trickle("down", 1)
    local store = open({ url = p.url }, { connect_timeout = 5,
      io_timeout = 5 })
    assert(assert(store:try_lock("k")):release())
    store:close()
    p:stop()
    -- and one that nobody asked for
    store = warm(f, { ["EVALSHA TAKE"] = once(raw .. ":7\r\n") })
    local lease = store:try_lock("k")
    if lease then lease:release() end
    assert(store:ping())
    store:close()
  end)

  it("holds are renewed and released by a server without memory", function()
    local other = redis.start()
    local r = other:connect()
    local s = assert(dlock.open(other.url))
    local leases = {
      assert(s:try_lock("full", { ttl = 20 })),
      assert(s:semaphore("permits", 2):acquire { ttl = 20 }),
      assert(s:rwlock("shared"):read():acquire { ttl = 20 }),
    }
    r:call("CONFIG", "SET", "maxmemory", "1")
    for _, lease in ipairs(leases) do
      local ok, message = lease:extend(60)
      assert.is_truthy(ok, message)
      assert(lease:release())
    end
    assert.are.equal("unavailable", select(3, s:try_lock("full")))
    s:close()
    r:close()
    other:stop()
  end)

  timed("silence is unavailable within its time, and taken back", function()
    local f = fake_server.start()
    local store = warm(f, { ["EVALSHA TAKE"] = fake_server.SILENT },
      { io_timeout = 0.3 })
    local start = uv.hrtime()
    local got, _, code = store:try_lock("k")
    assert.is_nil(got)
    assert.are.equal("unavailable", code)
    assert.is_true((uv.hrtime() - start) / 1e9 < 2)
    store:close(0.2)
  end)
end)
