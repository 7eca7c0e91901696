-- Servers that refuse, are too old, or are no Redis at all: each is found when
-- connecting, in bounded time, with its code and a text that says what to do.

local core = require "dlock.core"
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local fake_server = require "spec.support.fake_server"
local private_redis = require "spec.support.private_redis"
local process = require "spec.support.process"
local redis = require "spec.support.redis"
local refused = require "spec.support.refused"
local steady = require "spec.support.steady"

local private, admin
local unpack = table.unpack or unpack

local function opts(url, more)
  local all = { url = url, connect_timeout = 5, io_timeout = 5 }
  for name, value in pairs(more or {}) do all[name] = value end
  return all
end

local function fails(url, code, pattern, more)
  refused(assert(dlock.open(opts(url, more))), 7, code, pattern)
end

describe("connecting to redis:", function()
  private_redis(function(...) private, admin = ... end)

  local timed = steady(nil, process.close_all)

  local function user(...)
    admin:call("ACL", "DELUSER", "u")
    admin:call("ACL", "SETUSER", "u", "on", ">pw", "~*", "&*", ...)
    return (private.url:gsub("//", "//u:pw@"))
  end

  it("a wrong password is denied", function()
    user("+@all")
    local url = private.url:gsub("//", "//u:nope@")
    fails(url, "denied", "password")
  end)

  it("a name with an empty password is that user", function()
    user("+@all", "nopass")
    local url = private.url:gsub("//", "//u:@")
    local store = assert(dlock.open(opts(url)))
    local lease = assert(store:lock("named"))
    local clients = admin:call("CLIENT", "LIST")
    assert.is_truthy(clients:find("name=dlock[^\n]*user=u"), clients)
    assert(lease:release())
    store:close()
    fails(private.url, "denied", "password", { username = "nobody" })
  end)

  it("takes 3 KB at most and sends no script", function()
    local function received()
      return tonumber(admin:call("INFO", "stats")
        :match "total_net_input_bytes:(%d+)")
    end
    local function cached()
      return tonumber(admin:call("INFO", "memory")
        :match "number_of_cached_scripts:(%d+)")
    end
    admin:call("SCRIPT", "FLUSH")
    local before = received()
    local store = assert(dlock.open(opts(private.url)))
    assert(store:ping())
    assert.is_true(received() - before <= 3072, received() - before)
    assert.are.equal(0, cached())
    -- A script goes whole once for all clients of the server.
    assert(assert(store:try_lock("once")):release())
    local known = cached()
    for i = 1, 3 do assert(assert(store:try_lock("once" .. i)):release()) end
    local other = assert(dlock.open(opts(private.url)))
    before = received()
    assert(assert(other:try_lock("once")):release())
    assert.is_true(received() - before <= 3072, received() - before)
    assert.are.equal(known, cached())
    other:close()
    store:close()
  end)

  it("scripts that a server forgot are sent again, in a batch too", function()
    local store = assert(dlock.open(opts(private.url)))
    local leases = {}
    for i = 1, 20 do
      leases[i] = assert(store:try_lock("batch" .. i, { ttl = 3 }))
    end
    admin:call("SCRIPT", "FLUSH")
    eventually("all are renewed", 5, function()
      for i = 1, 20 do
        if admin:call("PTTL", "dlock:batch" .. i) < 2000 then return false end
      end
      return (admin:command_counts().eval or 0) > 0
    end)
    admin:call("SCRIPT", "FLUSH")
    local requests = {}
    for i = 1, 20 do requests[i] = core.release(leases[i]) end
    for i = 1, 20 do
      while not core.drive(requests[i], 0.2) do end
      assert(requests[i]:take())
    end
    for i = 1, 20 do
      assert.are.equal(0, admin:call("EXISTS", "dlock:batch" .. i))
    end
    store:close()
  end)

  it("the reason of a failed call stands beside the key", function()
    local store = assert(dlock.open(opts("redis://127.0.0.1:1")))
    local _, message, code = store:try_lock("orders:42")
    assert.are.equal("unavailable", code)
    assert.matches("^unavailable: 'orders:42': redis://", message)
    store:close()
  end)

  it("a missing password is denied", function()
    local other = redis.start { requirepass = "pw" }
    fails(other.url, "denied", "password")
    local store = assert(dlock.open(opts(other.url, { password = "pw" })))
    assert(store:ping())
    store:close()
    other:stop()
  end)

  it("a password for a server without one is denied", function()
    fails((private.url:gsub("//", "//:pw@")), "denied", "without one")
  end)

  -- What one user asks of a key, until a right is missing: the message.
  local function first_denial(store, other, key)
    local short = { ttl = 1.5, timeout = 20, renew = false }
    local function reader(s) return s:rwlock(key):read() end
    local lease, beside
    for _, deed in ipairs {
      function() return store:ping() end,
      function() lease = { store:try_lock(key) } return unpack(lease) end,
      function() return lease[1]:release() end,
      function() lease = { store:try_lock(key) } return unpack(lease) end,
      function() return lease[1]:release() end,
      function()
        return admin:call("SET", "dlock:" .. key, "another's", "PX", 1000)
      end,
      function() lease = { store:lock(key, short) } return unpack(lease) end,
      function() return lease[1]:release() end,
      function()
        beside = reader(other):acquire(short)
        return beside
      end,
      function()
        lease = { reader(store):acquire(short) }
        return unpack(lease)
      end,
      function() return lease[1]:release() end,
    } do
      local got, message, code = deed()
      if not got and code == "denied" then
        if beside then beside:release() end
        return message
      end
      assert.is_truthy(got, message)
    end
  end

  it("a right that is missing is named by the call that needs it", function()
    local other = assert(dlock.open(opts(private.url)))
    admin:call("SCRIPT", "FLUSH")
    for i, command in ipairs {
      "multi", "exec", "eval", "get", "set", "incrby", "del", "pexpire", "pttl",
      "exists", "time", "zadd", "zrem", "zrange", "zrank", "zscore", "zpopmin",
      "zrangebyscore", "hset", "hget", "hdel", "hmget",
    } do
      local store = assert(dlock.open(opts(user("+@all", "-" .. command))))
      local message = first_denial(store, other, "acl" .. i)
      assert.is_truthy(message, command)
      assert.is_truthy(message:upper():find(command:upper(), 1, true), message)
      store:close()
    end
    other:close()
    assert.are.same({}, admin:call("KEYS", "*probe*"))
  end)

  it("no key of another program is touched to find out", function()
    local url = user("+@all", "-time")
    local names = { "dlock probe", "dlock:dlock probe" }
    for _, name in ipairs(names) do admin:call("SET", name, "a user's") end
    for _, prefix in ipairs { "", "dlock:" } do
      local store = assert(dlock.open(opts(url, { prefix = prefix })))
      local _, message = store:try_lock("beside")
      assert.matches("refuses TIME", message)
      store:close()
    end
    for _, name in ipairs(names) do
      assert.are.equal("a user's", admin:call("GET", name))
      admin:call("DEL", name)
    end
    assert.are.same({}, admin:call("KEYS", "*probe*"))
  end)

  it("a right that is withdrawn later leaves no lock behind", function()
    local url = user("+@all")
    local store = assert(dlock.open(opts(url)))
    for _ = 1, 2 do
      assert(assert(store:try_lock("withdrawn")):release())
    end
    admin:call("ACL", "SETUSER", "u", "-incrby")
    for _, take in ipairs { store.try_lock, store.lock } do
      local got, message, code = take(store, "withdrawn", { ttl = 60 })
      assert.is_nil(got)
      assert.are.equal("denied", code, message)
      assert.are.equal(0, admin:call("EXISTS", "dlock:withdrawn"))
    end
    store:close()
  end)

  it("a user without channels is denied a wait", function()
    local holder = assert(dlock.open(private.url))
    local lease = assert(holder:lock("channels"))
    local store = assert(dlock.open(opts(user("+@all", "resetchannels"))))
    local _, message, code = store:lock("channels", { timeout = 2 })
    assert.are.equal("denied", code)
    assert.matches("SUBSCRIBE", message)
    assert(lease:release())
    store:close()
    holder:close()
  end)

  it("a user without rights on keys is denied", function()
    for _, more in ipairs { { "~other:*" }, { "~app:*" },
        { "~~dlock:{??????}:?:app:*" } } do
      local store = assert(dlock.open(opts(user("+@all", "resetkeys",
        unpack(more)), { prefix = "app:" })))
      local _, message, code = store:try_lock("named")
      assert.are.equal("denied", code)
      assert.matches("names of these locks; .* ~app:%* and "
        .. "~~dlock:{%?%?%?%?%?%?}:%?:app:%*", message)
      store:close()
    end
    local store = assert(dlock.open(opts(user("+@all", "resetkeys", "~app:*",
      "~~dlock:{??????}:?:app:*"), { prefix = "app:" })))
    assert(assert(store:lock("named")):release())
    store:close()
  end)

  it("subscribe is asked for when waiting", function()
    local url = user("+@all", "-subscribe")
    local holder = assert(dlock.open(private.url))
    local lease = assert(holder:lock("sub"))
    local store = assert(dlock.open(opts(url)))
    local got, message, code = store:lock("sub", { timeout = 2 })
    assert.is_nil(got)
    assert.are.equal("denied", code)
    assert.is_truthy(message:find("SUBSCRIBE", 1, true), message)
    -- Nothing of waits that ended so may be looked at by later ones.
    for _ = 1, 3 do
      assert.are.equal("denied",
        select(3, store:lock("sub", { timeout = 2 })))
    end
    local leases = {}
    for i = 1, 40 do leases[i] = assert(store:try_lock("other" .. i)) end
    for i = 1, 40 do assert(leases[i]:release()) end
    store:close()
    assert(lease:release())
    holder:close()
  end)

  it("does without client, info, config, script, evalsha", function()
    for _, missing in ipairs {
      { "-client", "-info", "-config", "-script" }, { "-evalsha" },
    } do
      local url = user("+@all", unpack(missing))
      local store = assert(dlock.open(opts(url)))
      local lease = assert(store:try_lock("few"))
      assert(lease:extend())
      assert(lease:release())
      store:close()
    end
  end)

  it("a key that is denied changes nothing for the others", function()
    local url = user("+@all", "resetkeys", "~*mine*")
    local store = assert(dlock.open(opts(url)))
    local function pair()
      for _, lock in ipairs { store:mutex("mine"),
          store:rwlock("mine"):read() } do
        assert(assert(lock:try_acquire()):release())
      end
    end
    pair()
    local before = admin:command_counts()
    for _, lock in ipairs { store:mutex("other"), store:rwlock("other"):read() }
    do
      assert.are.equal("denied", select(3, lock:try_acquire()))
    end
    pair()
    local counts = admin:command_counts()
    assert.are.equal(before.eval or 0, counts.eval or 0)
    assert.is_true(counts.evalsha > before.evalsha)
    store:close()
  end)

  -- One who waits, and has just asked.
  local function queue_somebody(r, store, key)
    local time = r:call("TIME")
    r:call("ZADD", ("~dlock:%s:q:dlock:%s"):format(store:tag(key), key),
      ("%s%06d"):format(time[1], time[2]),
      ("a"):rep(32) .. ":0123456789abcdef:")
  end

  it("what ended a hold is done, whatever is refused behind that", function()
    local url = user("+@all")
    local store, other = assert(dlock.open(opts(url))), dlock.open(private.url)
    store:break_lock("half") -- so that the server has the script
    local broken = assert(other:lock("half", { ttl = 60 }))
    admin:call("ACL", "SETUSER", "u", "-publish")
    local before = admin:command_counts()
    assert.is_true((assert(store:break_lock("half"))))
    assert.are.equal(0, admin:call("EXISTS", "dlock:half"))
    local counts = admin:command_counts()
    assert.are.equal(before.eval or 0, counts.eval or 0)
    assert.are.equal((before.evalsha or 0) + 1, counts.evalsha)
    local lease = assert(store:lock("quiet", { ttl = 60 }))
    queue_somebody(admin, store, "quiet")
    assert.is_true((assert(lease:release())))
    assert.is_true(admin:call("PTTL", "dlock:quiet") <= 1000) -- a claim
    admin:call("ACL", "SETUSER", "u", "+publish", "-del")
    lease = assert(other:lock("whole", { ttl = 60 }))
    assert.are.equal("denied", select(3, store:break_lock("whole")))
    assert(lease:extend())
    -- Held until here: who forgets it has it released, by one more request.
    assert.are.equal("lost", select(3, broken:release()))
    store:close()
    other:close()
  end)

  timed("the rights that docs/security.md names are enough", function()
    local rule = io.open("docs/security.md"):read("*a")
      :match("ACL SETUSER app on >secret (.-)```"):gsub("\\\n", " ")
    local words = { "ACL", "SETUSER", "app", "on", ">secret" }
    for word in rule:gmatch("%S+") do words[#words + 1] = word end
    admin:call(unpack(words))
    local url = private.url:gsub("//", "//app:secret@")
    local one = assert(dlock.open(opts(url .. "/2")))
    local two = assert(dlock.open(opts(url .. "/2")))
    local lease = assert(one:lock("docs", { ttl = 1 }))
    assert.are.equal("timeout",
      select(3, two:lock("docs", { timeout = 0.4 })))
    assert(lease:extend())
    assert.is_true(one:mutex("docs"):locked())
    assert(lease:release())
    assert(assert(two:lock("docs")):release())
    admin:call("SELECT", 2) -- and when another program wrote to the counter
    local counter = admin:call("KEYS", "~dlock:{*}:f:dlock:docs")[1]
    admin:call("DEL", counter)
    admin:call("RPUSH", counter, "x")
    assert.are.equal("invalid", select(3, one:try_lock("docs")))
    assert.are.equal("invalid",
      select(3, two:rwlock("docs"):read():acquire()))
    admin:call("SELECT", 0)
    one:close()
    two:close()
    local log = admin:call("ACL", "LOG")
    for i = 1, #log do
      for j = 1, #log[i], 2 do
        if log[i][j] == "username" then
          assert.are_not.equal("app", log[i][j + 1])
        end
      end
    end
  end)

  -- The page's line, with another user and another prefix in its patterns.
  local function tenant(name)
    local rule = io.open("docs/security.md"):read("*a")
      :match("ACL SETUSER app on >secret (.-)```")
    local words = { "ACL", "SETUSER", name, "on", ">secret" }
    for word in rule:gmatch("%S+") do
      word = word:find("^~") and word:gsub("dlock:%*$", name .. ":*") or word
      words[#words + 1] = word
    end
    admin:call(unpack(words))
    local url = private.url:gsub("//", "//" .. name .. ":secret@")
    return url, assert(dlock.open(opts(url, { prefix = name .. ":" })))
  end

  it("tenants with the rights of docs/security.md have locks apart", function()
    local DEEDS = { { "DEL" }, { "GET" }, { "SET", "x" }, { "INCR" },
      { "PEXPIRE", "1" }, { "ZREM", "x" }, { "HDEL", "x" },
      { "ZADD", "1", "x" }, { "HSET", "x", "x" }, { "ZPOPMIN" },
      { "ZRANGE", "0", "-1" } }
    local urls, stores = {}, {}
    for _, name in ipairs { "app", "shop" } do
      urls[name], stores[name] = tenant(name)
    end
    for mine, other in pairs { app = "shop", shop = "app" } do
      local store = stores[mine]
      local lease = assert(store:lock("job", { min_hold = 0.1 }))
      local second = assert(dlock.open(opts(urls[mine],
        { prefix = mine .. ":", host = "luv" })))
      local reader = assert(store:rwlock("read"):read():acquire())
      local won = assert(store:election("chair"):campaign { value = "us" })
      local got
      coroutine.wrap(function()
        got = assert(second:lock("job", { timeout = 20 }))
      end)()
      eventually("it queues", 10, function()
        return #assert(store:inspect("job")).waiters == 1
      end)
      assert(store:revoke("job"))
      local raw, seen = assert(redis.connect(urls[other])), 0
      for _, name in ipairs(admin:call("KEYS", "*")) do
        if name:find(mine .. ":", 1, true) then
          seen = seen + 1
          for _, deed in ipairs(DEEDS) do
            local ok, err = pcall(raw.call, raw, deed[1], name,
              unpack(deed, 2))
            assert.is_false(ok, deed[1] .. " " .. name)
            assert.is_truthy(tostring(err):find("NOPERM", 1, true), err)
          end
        end
      end
      raw:close()
      assert(seen >= 8, seen)
      local stranger = assert(dlock.open(opts(urls[other],
        { prefix = mine .. ":" })))
      assert.are.equal("denied", select(3, stranger:break_lock("job")))
      stranger:close()
      assert(won:release())
      assert(reader:release())
      assert(lease:release())
      eventually("it is served", 10, function() return got end)
      coroutine.wrap(function()
        assert(got:release())
        got = second:close()
      end)()
      eventually("it is closed", 10, function() return got == true end)
      store:close()
    end
    for _, name in ipairs { "app", "shop" } do
      admin:call("ACL", "DELUSER", name)
    end
  end)

  it("each command of a script is tried, and named in that line", function()
    local rule = io.open("docs/security.md"):read("*a")
      :match("ACL SETUSER app on >secret (.-)```"):lower() .. " "
    local list = assert(io.popen("ls csrc/store/redis/scripts/*.lua"
      .. " csrc/store/redis/scripts/include/*.lua"))
    local probed = io.open("csrc/store/redis/scripts/probe.lua"):read("*a")
    local seen = 0
    for path in list:lines() do
      local text = io.open(path):read("*a")
      for command, next in text:gmatch("call%('(%u+)'([^\n]*)") do
        local sub = next:match("^, '(%u+)'")
        local right = command == "PUBSUB" and "pubsub|" .. sub:lower()
          or command:lower()
        assert(rule:find("+" .. right .. "[%s]"), path .. ": " .. command)
        assert(probed:find("[{(] ?'" .. command .. "'"), command)
        seen = seen + 1
      end
    end
    list:close()
    assert(seen > 50)
  end)

  it("a database that is not there is invalid", function()
    fails(private.url .. "/99", "invalid", "database 99")
    assert.are.equal("invalid",
      select(3, dlock.open(private.url .. "/x")))
  end)

  it("databases are apart, a unix socket is the same server", function()
    local one = assert(dlock.open(private.url .. "/1"))
    local two = assert(dlock.open(private.url .. "/0"))
    local unix = assert(dlock.open(private.socket_url))
    local a = assert(one:try_lock("db"))
    local b = assert(two:try_lock("db"))
    assert.are.equal("busy", select(3, unix:try_lock("db")))
    assert(b:release())
    local other = assert(dlock.open { url = private.socket_url, db = 1 })
    assert.are.equal("busy", select(3, other:try_lock("db")))
    assert(a:release())
    for _, store in ipairs { one, two, unix, other } do store:close() end
  end)

  -- Of servers by their rules, or how they begin: the code, and what is said.
  for name, rows in pairs {
    ["an old version is unsupported"] = {
      { {}, "unsupported", "5%.0%.14; 6%.2", { version = "5.0.14" } },
      { {}, "unsupported", "6%.0%.16; 6%.2", { version = "6.0.16" } },
    },
    ["a server that is not redis is invalid"] = {
      { { ["*"] = "HTTP/1.1 400 Bad\r\n\r\n" }, "invalid", "not a Redis" },
      { { INFO = "$5\r\nhello\r\n" }, "invalid",
        'answers INFO with "hello", so it is not Redis' },
    },
    -- As Envoy and Codis do.
    ["a proxy that refuses INFO is told of in its own words"] = {
      { { INFO = "-ERR unsupported command 'INFO'\r\n" }, "invalid",
        "ERR unsupported command 'INFO'" },
      { { INFO = "-ERR handle request, command 'INFO' is not allowed\r\n" },
        "invalid", "ERR handle request, command 'INFO' is not allowed" },
      { { INFO = "-unsupported\r\n" }, "invalid", "unsupported" },
    },
    -- As twemproxy does at INFO; a TLS port does the same at any command.
    ["a proxy that hangs up without a word is told of as that"] = {
      { { INFO = { raw = "", close = true } }, "unavailable",
        "at the first command; if it wants TLS.*a proxy" },
    },
    ["what a server repeats of a command that it does not know is left out"] = {
      { { MULTI = "-ERR unknown command `MULTI`, with args beginning with:"
        .. " `secret`, \r\n" }, "unavailable", "`MULTI`\"; .*rename%-command" },
    },
    ["one that never answers is unavailable"] = {
      { {}, "unavailable", "", { on_accept = "silent" },
        { connect_timeout = 1, io_timeout = 1 } },
    },
    ["one that hangs up is unavailable"] = {
      { {}, "unavailable", "", { on_accept = "close" } },
    },
    ["a server in protected mode says so"] = {
      { {}, "denied", "protected mode", { on_accept = "close",
        banner = "-DENIED Redis is running in protected mode because…\r\n" } },
    },
  } do
    it(name, function()
      for _, row in ipairs(rows) do
        local f = fake_server.start(row[1], row[4])
        fails(f.url, row[2], row[3], row[5])
      end
    end)
  end

  it("what a server said before it hung up is told", function()
    for _, said in ipairs { "ERR unknown command 'INFO'", "ERR go away" } do
      local rules = { INFO = { raw = "-" .. said .. "\r\n", close = true } }
      for _, name in ipairs { "", "user:secret@" } do
        local f = fake_server.start(rules)
        fails(f.url:gsub("//", "//" .. name), "unavailable", said)
        f:stop()
      end
    end
    local f = fake_server.start { AUTH = { raw = "-ERR no secret\r\n",
      close = true } }
    local store = assert(dlock.open(opts((f.url:gsub("//", "//:secret@")))))
    local _, message = store:ping()
    assert.is_nil(message:find("no secret", 1, true))
    store:close()
    f:stop()
  end)

  -- As hosters do with rename-command.
  it("a server without some commands is used without them", function()
    local names = { "INFO", "SCRIPT", "EVALSHA", "CLIENT", "CONFIG" }
    local renamed = {}
    for i, name in ipairs(names) do renamed[i] = name .. ' ""' end
    local bare = redis.start { rename_command = renamed }
    local a, b = assert(dlock.open(bare.url)), assert(dlock.open(bare.url))
    assert(b:ping()) -- who is not connected in time is told nothing of the lock
    for _ = 1, 2 do
      local lease = assert(a:lock("bare"))
      assert.are.equal("timeout", select(3, b:lock("bare", { timeout = 0.2 })))
      assert(lease:extend())
      assert(lease:release())
    end
    a:close()
    b:close()
    bare:stop()
  end)

  it("a command that cannot be missed is named", function()
    local bare = redis.start { rename_command = 'MULTI ""' }
    fails(bare.url, "unavailable", "'MULTI'.*rename%-command")
    bare:stop()
  end)

  -- A server that does not know AUTH, or a proxy, repeats what it was told.
  it("a password is in no message and in no event, whoever repeats it",
  function()
    local function silent_about(url)
      local said = {}
      local store = assert(dlock.open(opts(url, { password = "hunter2",
        username = "somebody",
        on_event = function(e) said[#said + 1] = e.text or e.message end })))
      local _, message, code = store:try_lock("k")
      said[#said + 1] = message
      store:close()
      local all = table.concat(said, "\n")
      assert.is_nil(all:find("hunter2", 1, true), all)
      assert.is_nil(all:find("somebody", 1, true), all)
      return code, message
    end
    local bare = redis.start { rename_command = 'AUTH ""' }
    local code, message = silent_about(bare.url)
    assert.are.equal("unavailable", code, message)
    assert.matches("refuses AUTH; .*rename%-command", message)
    bare:stop()
    for _, text in ipairs {
      "ERR unknown command `AUTH`, with args beginning with: `somebody`,"
        .. " `hunter2`, ",
      "ERR unknown command 'AUTH somebody hunter2'",
      "ERR Unknown command AUTH somebody hunter2",
      "ERR what is AUTH somebody hunter2?",
      "WRONGPASS somebody is not hunter2",
      "NOPERM AUTH somebody hunter2",
    } do
      for _, close in ipairs { false, true } do
        local f = fake_server.start { AUTH = { raw = "-" .. text .. "\r\n",
          close = close } }
        silent_about(f.url)
        f:stop()
      end
    end
  end)

  it("a port without a listener is unavailable", function()
    fails("redis://127.0.0.1:1", "unavailable", "refused")
    fails("redis+unix:///nonexistent/s", "unavailable", "No such file")
    fails("redis://no-such-host.invalid", "unavailable", "be resolved")
  end)

  it("a full server says so", function()
    local other = redis.start()
    local r = other:connect()
    r:call("CONFIG", "SET", "maxclients", "1")
    fails(other.url, "unavailable", "max number of clients.*maxclients")
    r:close()
    other:stop()
  end)

  it("a replica is unavailable", function()
    local other = redis.start()
    local r = other:connect()
    r:call("REPLICAOF", "127.0.0.1", tostring(private.port))
    fails(other.url, "unavailable", "replica")
    r:close()
    other:stop()
  end)

  it("a server that became a replica breaks nothing, and says so", function()
    local other = redis.start()
    local r = other:connect()
    local store = assert(dlock.open(opts(other.url)))
    assert(store:break_lock("k"))
    queue_somebody(r, store, "k")
    r:call("REPLICAOF", "127.0.0.1", "1")
    local got, _, code = store:break_lock("k")
    assert.is_nil(got)
    assert.are.equal("unavailable", code)
    store:close()
    r:close()
    other:stop()
  end)

  -- Where all slots are its own no command is refused, until one is moved.
  it("a node of a cluster is refused whatever slots it has", function()
    local node = redis.start { cluster_enabled = "yes" }
    local r = node:connect()
    for slot = 0, 16383, 8 do
      r:call("CLUSTER", "ADDSLOTS", slot, slot + 1, slot + 2, slot + 3,
        slot + 4, slot + 5, slot + 6, slot + 7)
    end
    eventually("its slots are served", 10, function()
      return r:call("CLUSTER", "INFO"):find("cluster_state:ok", 1, true)
    end)
    fails(node.url, "unsupported", "it is a node of a cluster")
    r:close()
    node:stop()
  end)
end)
