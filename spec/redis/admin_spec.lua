-- Inspection and administration on Redis: what the contract cannot know, on a
-- real server and behind a proxy. Names of keys stand in docs/redis.md.

local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local private_redis = require "spec.support.private_redis"
local process = require "spec.support.process"
local promptly = require "spec.support.promptly"
local proxy = require "spec.support.proxy"
local steady = require "spec.support.steady"
local uv = require "luv"

local _, _, digests = require("spec.sim.redis_model").texts()

local private, admin

-- Runs a line of Lua for each line that it is given, and answers it.
local WORKER = [[
  dlock = require "dlock"
  store = assert(dlock.open { url = arg[1], io_timeout = 5 })
  print("ready")
  for line in io.lines() do
    local ok, result = pcall(assert((loadstring or load)(line)))
    print((ok and "done " or "failed ") .. tostring(result))
    io.stdout:flush()
  end
]]

local function worker(url)
  local p = process.spawn { script = WORKER, args = { url } }
  p:expect("^ready$")
  return p
end

local function tell(p, line, ...)
  p:write(line:format(...) .. "\n")
end

local function run(p, ...)
  tell(p, ...)
  p:expect("^done ", 10)
end

local function part(letter, key)
  return admin:call("KEYS", "~dlock:{*}:" .. letter .. ":dlock:" .. key)[1]
end

local function gone(key)
  return admin:has_nothing_of("dlock:" .. key)
end

local function fails(code, got, message, its)
  assert.is_nil(got)
  assert.are.equal(code, its, message)
  assert.are.equal(code .. ": ", message:sub(1, #code + 2))
  return message
end

local function listed(store, prefix, limit)
  local found, cursor, pages = {}, nil, 0
  repeat
    local keys, more, code =
      store:list(prefix, { cursor = cursor, limit = limit })
    assert(keys, code and more)
    for _, key in ipairs(keys) do found[key] = (found[key] or 0) + 1 end
    cursor, pages = more, pages + 1
  until not cursor
  return found, pages
end

describe("redis administration:", function()
  private_redis(function(...) private, admin = ... end)

  local p, store, other

  local function set_up()
    admin:call("FLUSHALL")
    p = proxy.start(private.url)
    store = assert(dlock.open { url = p.url, io_timeout = 3, name = "me" })
    other = assert(dlock.open { url = private.url, io_timeout = 5 })
    assert(store:ping() and other:ping())
  end

  local function tear_down()
    store:close(1)
    other:close(1)
    p:stop()
    process.close_all()
  end

  local timed = steady(set_up, tear_down)

  -- Has messages reach `store`: it waits until the server has its name.
  local function subscribe()
    local lease = assert(other:lock("subscribe"))
    eventually("it is subscribed", 20, function()
      assert.is_nil((store:lock("subscribe", { timeout = 0.2 })))
      return #admin:call("PUBSUB", "CHANNELS", "~dlock:c:*") > 0
    end)
    assert(lease:release())
  end

  it("inspect writes nothing and takes one round trip", function()
    local lease = assert(other:lock("one", { value = "v" }))
    admin:call("CONFIG", "RESETSTAT")
    local before = admin:command_counts().evalsha or 0
    local found = assert(other:inspect("one"))
    assert.are.equal(before + 1, admin:command_counts().evalsha)
    for _, command in ipairs { "set", "del", "hset", "pexpire", "zadd" } do
      assert.is_nil(admin:command_counts()[command], command)
    end
    assert.are.equal("v", found.holders[1].value)
    lease:release()
    assert.is_true(gone("one"))
  end)

  timed("a hold without a script: its fence is exact once it was renewed",
    function()
      local lease = assert(store:lock("plain", { ttl = 0.9 }))
      local held = uv.hrtime()
      for _ = 1, 3 do fails("busy", other:try_lock("plain")) end
      local holder = assert(other:inspect("plain")).holders[1]
      assert.is_true(holder.fence >= lease.fence)
      assert.are.equal("me", holder.owner)
      eventually("noted, and told so", 5, function()
        store:ping()
        return store:stats().renewed > 0
      end)
      assert.is_truthy(part("i", "plain"))
      -- Less what a request may be under way: its age is that of its sending.
      local least = (uv.hrtime() - held) / 1e9 - 0.2
      holder = assert(other:inspect("plain")).holders[1]
      assert.are.equal(lease.fence, holder.fence)
      assert.is_true(holder.since >= least and holder.since < 10, holder.since)
      lease:release()
      assert.is_true(gone("plain"))
    end)

  it("inspect of a foreign client's lock, and of no lock", function()
    admin:call("SET", "dlock:foreign", "some\nbody", "PX", 20000)
    local found = assert(other:inspect("foreign"))
    assert.are.equal("exclusive", found.mode)
    assert.are.equal("some?body", found.holders[1].owner)
    assert.is_true(found.holders[1].ttl > 10)
    admin:call("DEL", "dlock:foreign")
    admin:call("RPUSH", "dlock:foreign", "x")
    fails("invalid", other:inspect("foreign"))
    fails("invalid", other:break_lock("foreign"))
    admin:call("DEL", "dlock:foreign")
  end)

  it("notes of a hold that is gone go with the next one", function()
    assert(other:lock("twice", { value = "old" }))
    admin:call("DEL", "dlock:twice")
    local lease = assert(other:lock("twice", { value = "new" }))
    assert.are.equal(1, admin:call("HLEN", part("i", "twice")))
    lease:release()
    lease = assert(other:lock("twice"))
    local holder = assert(other:inspect("twice")).holders[1]
    assert.is_nil(holder.value)
    assert.are.equal(lease.fence, holder.fence)
    lease:release()
    local one = assert(other:semaphore("twice", 3):acquire { value = "a" })
    local two = assert(other:semaphore("twice", 3):acquire { value = "b" })
    assert.are.equal(2, admin:call("HLEN", part("i", "twice")))
    one:release()
    holder = assert(other:inspect("twice")).holders
    assert.are.equal(1, #holder)
    assert.are.equal("b", holder[1].value)
    two:release()
    assert.is_true(gone("twice"))
  end)

  it("list shows no foreign things, even with the prefix ''", function()
    local bare = assert(dlock.open { url = private.url, prefix = "" })
    for i = 1, 500 do admin:call("SET", "thing" .. i, ("x"):rep(i)) end
    admin:call("RPUSH", "thinglist", "x")
    local lease = assert(bare:lock("thing"))
    local reader = assert(bare:rwlock("thing*[1]"):read():acquire())
    assert.are.same({ ["thing"] = 1, ["thing*[1]"] = 1 },
      listed(bare, "thing"))
    assert.are.same({ ["thing*[1]"] = 1 }, listed(bare, "thing*["))
    assert.are.same({}, listed(bare, "thing?"))
    local _, pages = listed(bare, "thing", 1)
    assert.is_true(pages < 20, pages)
    lease:release()
    reader:release()
    bare:close()
    admin:call("FLUSHALL")
  end)

  it("list shows a key that has only waiters", function()
    local w = worker(private.url)
    admin:call("SET", "dlock:queued", "foreign", "PX", 60000)
    tell(w, "return store:lock('queued', { timeout = 20 })")
    eventually("it waits", 5, function() return part("q", "queued") end)
    assert.are.same({}, listed(other, "queued"))
    w:pause()
    admin:call("DEL", "dlock:queued")
    local found = listed(other, "queued")
    w:resume()
    assert.are.same({ queued = 1 }, found)
    w:expect("^done dlock.lease")
  end)

  it("list gives few keys on one page, and no cursor behind them", function()
    local w = worker(private.url)
    local one, two = assert(store:lock("few")), assert(store:lock("fewer"))
    admin:call("SET", "dlock:few queue", "foreign", "PX", 60000)
    tell(w, "return store:lock('few queue', { timeout = 20 })")
    eventually("it waits", 5, function() return part("q", "few queue") end)
    w:pause()
    admin:call("DEL", "dlock:few queue")
    -- Between them are more names than one step looks at.
    for i = 1, 3000, 100 do
      local names = {}
      for n = i, i + 99 do
        names[#names + 1], names[#names + 2] = "x" .. n, "1"
      end
      admin:call("MSET", (table.unpack or unpack)(names))
    end
    local keys, cursor, code = other:list("few")
    assert.is_nil(cursor)
    assert.is_nil(code)
    table.sort(keys)
    assert.are.same({ "few", "few queue", "fewer" }, keys)
    -- A page that is full ends, and says where to go on.
    keys, cursor = other:list("few", { limit = 1 })
    assert.is_true(#keys < 3)
    assert.is_string(cursor)
    one:release()
    two:release()
    w:resume()
    w:expect("^done dlock.lease")
  end)

  it("list refuses a cursor that it did not give", function()
    for _, bad in ipairs { "", "0", "k", "x1", "k1x", "k" .. ("1"):rep(21),
      "k" .. ("9"):rep(20) } do
      if bad ~= "" then
        fails("invalid", other:list("a", { cursor = bad }))
      end
    end
  end)

  it("break: the holder is notified long before its renewal", function()
    subscribe()
    local lease = assert(store:lock("rude", { ttl = 60 }))
    assert.is_true(other:break_lock("rude"))
    assert.is_true(lease:wait_lost(5))
    assert.is_true(gone("rude"))
  end)

  -- The renewal thread ends it, and this one sees each of its steps.
  it("break: a hold that is seen to have ended is counted as lost", function()
    local before = store:stats().lost
    for i = 1, 40 do
      local lease = assert(store:lock("counted", { ttl = 1, timeout = 20 }))
      assert.is_true(other:break_lock("counted"))
      while lease:held() do end
      assert.are.equal(before + i, store:stats().lost)
    end
  end)

  timed("break: the message crosses a renewal that came before", function()
    subscribe()
    local lease = assert(store:lock("crossed", { ttl = 6 }))
    local renewals = p:count(digests.renew)
    p:hold("down", { sent = digests.renew })
    assert(p:wait_for(digests.renew, { count = renewals + 1 }))
    eventually("it was renewed", 2, function()
      return admin:call("PTTL", "dlock:crossed") > 5000
    end)
    assert.is_true(other:break_lock("crossed"))
    assert(p:wait_for("\r\nb ", { way = "down" }))
    p:release("down")
    assert.is_true(lease:wait_lost(1))
  end)

  it("break, whose reply is lost, is not repeated", function()
    local w = worker(private.url)
    local lease = assert(other:lock("once", { ttl = 60 }))
    tell(w, "l = assert(store:lock('once', { timeout = 20 }))")
    eventually("it waits", 5, function() return part("q", "once") end)
    p:cut_after(digests["break"])
    local message = fails("unavailable", store:break_lock("once"))
    assert.is_truthy(message:find("may have been done", 1, true), message)
    w:expect("^done")
    assert(store:ping())
    run(w, "assert(l:extend())")
    fails("lost", lease:release())
    run(w, "assert(l:release())")
    assert.is_true(gone("once"))
  end)

  it("revoke reaches one that listens at once", function()
    subscribe()
    local lease = assert(store:lock("polite", { ttl = 60 }))
    assert.is_true(other:revoke("polite"))
    eventually("asked", 5, function()
      store:ping()
      return lease:revoked()
    end)
    assert.is_true(lease:held())
    lease:release()
    assert.is_true(gone("polite"))
  end)

  timed("revoke reaches one that does not listen yet, at its renewal",
  function()
    local one = assert(store:lock("later", { ttl = 2 }))
    assert.are.equal(0, admin:call("PUBSUB", "NUMPAT"))
    assert.are.same({}, admin:call("PUBSUB", "CHANNELS", "~dlock:c:*"))
    assert.is_true(other:revoke("later"))
    eventually("asked", 5, function()
      store:ping()
      return one:revoked()
    end)
    assert.is_true(one:held())
    one:release()
    assert.is_true(gone("later"))
  end)

  it("a late hand-off message does not take back a detached lease",
    function()
      local w = worker(p.url)
      local lease = assert(other:lock("moved"))
      tell(w, "l = assert(store:lock('moved', { timeout = 20 }))")
      eventually("it waits", 5, function() return part("q", "moved") end)
      p:hold("down", { sent = "SUBSCRIBE" })
      assert(lease:release())
      w:expect("^done") -- by its refresh
      run(w, "assert(l:detach())")
      local token = admin:call("GET", "dlock:moved")
      p:release("down")
      for _ = 1, 5 do run(w, "assert(store:ping())") end
      assert.are.equal(token, admin:call("GET", "dlock:moved"))
      admin:call("DEL", "dlock:moved")
    end)

  it("guard: all kinds of results", function()
    local lease = assert(other:lock("g"))
    assert.are.equal("OK", lease:guard("SET", "gdata", "v\0w"))
    assert.are.equal("v\0w", lease:guard("GET", "gdata"))
    assert.is_nil((lease:guard("GET", "gnone")))
    assert.are.equal(2, lease:guard("RPUSH", "glist", "a", 7))
    assert.are.same({ "a", "7" }, lease:guard("LRANGE", "glist", 0, -1))
    local message = fails("invalid", lease:guard("INCR", "glist"))
    assert.is_truthy(message:find("WRONGTYPE", 1, true), message)
    fails("invalid", lease:guard("NOSUCH"))
    fails("invalid", lease:guard("SUBSCRIBE", "x"))
    fails("invalid", lease:guard("DEL", (table.unpack or unpack)(
      (function()
        local many = {}
        for i = 1, 1500 do many[i] = i end
        return many
      end)())))
    assert.is_true(lease:held())
    assert.are.equal(2, lease:guard("DEL", "gdata", "glist"))
    lease:release()
  end)

  it("guard, whose reply is lost, is not repeated", function()
    local lease = assert(store:lock("g"))
    p:cut_after("INCR")
    local message = fails("unavailable", lease:guard("INCR", "gcount"))
    assert.is_truthy(message:find("may have been done", 1, true), message)
    assert.are.equal("1", admin:call("GET", "gcount"))
    assert.are.equal(2, lease:guard("INCR", "gcount"))
    assert.are.equal(1, lease:guard("DEL", "gcount"))
    lease:release()
  end)

  -- Red under AddressSanitizer, if the lease's memory is still listened for.
  it("a message for a lease that a guard, or a downgrade, found lost",
    function()
      subscribe()
      for _, what in ipairs { "guard", "downgrade" } do
        local lease = assert(store:lock("dead", { ttl = 60 }))
        local token = admin:call("GET", "dlock:dead")
        local channel = "~dlock:c:" .. token:sub(34, 49)
        eventually("it listens", 5, function()
          return admin:call("PUBSUB", "NUMSUB", channel)[2] == 1
        end)
        admin:call("DEL", "dlock:dead")
        fails("lost", lease[what](lease, "PING"))
        lease = nil -- luacheck: ignore 311
        collectgarbage()
        collectgarbage()
        assert.are.equal(1, admin:call("PUBLISH", channel, "b " .. token))
        for _ = 1, 5 do assert(store:ping()) end
      end
    end)

  it("downgrade: no gap, same fence and time, queued readers come in",
    function()
      local w = worker(private.url)
      local lease = assert(store:rwlock("down"):write():acquire { ttl = 50 })
      tell(w, "l = assert(store:rwlock('down'):read():acquire{ timeout = 20 })")
      eventually("it waits", 5, function() return part("q", "down") end)
      w:pause() -- so that it does not ask by itself
      p:cut_after(digests.downgrade) -- asked again
      assert.is_true(lease:downgrade())
      local found = assert(other:inspect("down"))
      w:resume()
      w:expect("^done")
      assert.are.equal("shared", found.mode)
      assert.are.equal(2, #found.holders)
      local mine = found.holders[1].owner == "me" and 1 or 2
      assert.are.equal(lease.fence, found.holders[mine].fence)
      assert.is_true(found.holders[mine].ttl > 30)
      assert.is_nil(admin:call("SET", "dlock:down", "foreign", "NX"))
      assert(lease:extend())
      lease:release()
      assert.is_true(admin:call("EXISTS", "dlock:down") == 1)
      run(w, "assert(l:release())")
      assert.is_true(gone("down"))
    end)

  it("downgrade: goes on while there is time", function()
    local w = worker(p.url)
    run(w, "l = assert(store:rwlock('slow'):write():acquire { ttl = 50 })")
    p:cut_after(digests.downgrade)
    p:refuse(true)
    tell(w, "return l:downgrade()")
    eventually("it is done, and nobody said so", 5, function()
      return p:stats().open == 1 -- ours
    end)
    for _ = 1, 50 do admin:call("PING") end -- it comes to be refused
    assert.is_truthy(admin:call("GET", "dlock:slow"):find("^~s"))
    p:refuse(false)
    w:expect("^done true")
    run(w, "assert(l:release())")
    assert.is_true(gone("slow"))
  end)

  it("publish: asked again, by a holder whose note is gone too", function()
    local election = assert(store:election("said"))
    local lease = assert(election:campaign { value = "first", ttl = 50 })
    local info = part("i", "said")
    p:cut_after(digests.publish)
    assert.is_true(election:publish("second"))
    local leader = assert(other:election("said"):leader())
    assert.are.equal("second", leader.value)
    assert.are.equal(lease.fence, leader.fence)
    assert.is_truthy(info)
    admin:call("DEL", info)
    assert.is_true(election:publish("third"))
    leader = assert(other:election("said"):leader())
    assert.are.equal("third", leader.value)
    assert.are.equal(lease.fence, leader.fence)
    assert.is_nil(leader.fence_at_most)
    assert.is_true(admin:call("PTTL", info) > 30000)
    assert(lease:resign())
    assert.is_true(gone("said"))
  end)

  it("wait_change is woken, and does not poll", function()
    local w = worker(private.url)
    run(w, "e = store:election('chief') e:leader()")
    promptly(0.7, function()
      local lease
      tell(w, "return e:wait_change(20)")
      eventually("it watches", 5, function() return part("n", "chief") end)
      local start = uv.hrtime()
      lease = assert(other:election("chief"):campaign())
      w:expect("^done true")
      tell(w, "return e:wait_change(20)")
      eventually("it watches", 5, function() return part("n", "chief") end)
      lease:resign()
      w:expect("^done true")
      return (uv.hrtime() - start) / 1e9
    end)
    assert.is_true(gone("chief"))
  end)

  it("wait_change finds a change without a message, and removes its name",
    function()
      local w = worker(private.url)
      run(w, "e = store:election('quiet') e:leader()")
      tell(w, "return e:wait_change(20)")
      eventually("it watches", 5, function() return part("n", "quiet") end)
      admin:call("SET", "dlock:quiet", "foreign", "PX", 30000)
      w:expect("^done true", 5)
      tell(w, "return e:wait_change(20)")
      eventually("it watches", 5, function() return part("n", "quiet") end)
      admin:call("DEL", "dlock:quiet")
      w:expect("^done true", 5)
      eventually("over", 5, function() return gone("quiet") end)
    end)

  timed("wait_change that ends in time leaves nothing", function()
    local lease = assert(other:election("calm"):campaign())
    local election = store:election("calm")
    assert(election:leader())
    fails("timeout", election:wait_change(0.2))
    assert.is_nil(part("n", "calm"))
    lease:resign()
    assert.is_true(gone("calm"))
  end)
end)
