-- An exclusive lock is a plain SET NX PX key released by compare-and-delete:
-- redis-py's Lock (Debian: python3-redis) and dlock exclude each other, both
-- ways, and wait for each other.

local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local process = require "spec.support.process"
local redis = require "spec.support.redis"
local steady = require "spec.support.steady"

local PYTHON = [[
import sys, redis
url, name = sys.argv[1], sys.argv[2]
server = redis.Redis.from_url(url)
lock = redis.lock.Lock(server, name, timeout=20, sleep=0.01)
print("ready", flush=True)
for line in sys.stdin:
    word = line.strip()
    if word == "try":
        print("got" if lock.acquire(blocking=False) else "busy", flush=True)
    elif word == "lock":
        print("got" if lock.acquire(blocking_timeout=15) else "timeout",
              flush=True)
    elif word == "owned":
        print(lock.owned(), flush=True)
    elif word == "release":
        try:
            lock.release()
            print("released", flush=True)
        except redis.exceptions.LockError as e:
            print("lost", flush=True)
]]

describe("foreign clients on redis:", function()
  local url = os.getenv("DLOCK_TEST_REDIS")
  local key = ("foreign%d"):format(math.random(1, 1e9))
  local store, py

  local function set_up()
    store = assert(dlock.open { url = url, prefix = "" })
  end

  local function tear_down()
    store:close()
    process.close_all()
    local r = redis.connect(url)
    r:call("DEL", key)
    r:close()
  end

  local timed = steady(set_up, tear_down)

  -- Debian's, which has the module: `make deps`.
  local function start_python()
    py = process.spawn { command = { "/usr/bin/python3", "-c", PYTHON, url,
      key } }
    py:expect("^ready$")
  end

  local function says(word, answer)
    py:write(word .. "\n")
    assert.are.equal(answer, py:read_line())
  end

  it("redis-py gets a key only after dlock released it", function()
    start_python()
    local lease = assert(store:lock(key))
    says("try", "busy")
    py:write("lock\n")
    assert(lease:extend(20))
    assert(lease:release())
    assert.are.equal("got", py:read_line())
    says("release", "released")
  end)

  timed("dlock does not get what redis-py holds, and then does", function()
    start_python()
    says("try", "got")
    local got, message, code = store:try_lock(key)
    assert.is_nil(got)
    assert.are.equal("busy", code, message)
    got, message, code = store:lock(key, { timeout = 0.3 })
    assert.is_nil(got)
    assert.are.equal("timeout", code)
    assert.is_truthy(message:find("another client", 1, true), message)
    says("owned", "True")
    py:write("release\n")
    local lease = assert(store:lock(key, { timeout = 3 }))
    assert.are.equal("released", py:read_line())
    assert.is_true(lease:held())
    says("try", "busy")
    assert(lease:release())
  end)

  it("neither releases the other's", function()
    start_python()
    says("try", "got")
    local r = redis.connect(url)
    r:call("DEL", key)
    local lease = assert(store:try_lock(key))
    says("release", "lost")
    assert.is_true(lease:held())
    r:call("DEL", key)
    says("try", "got")
    assert.are.equal("lost", select(3, lease:release()))
    says("owned", "True")
    says("release", "released")
    r:close()
  end)

  it("a busy try makes no counter", function()
    local r, name = redis.connect(url), key .. "-never-ours"
    local function counters()
      return r:call("KEYS", "~*:f:" .. name)
    end
    assert(assert(store:lock(name)):release())
    r:call("DEL", counters()[1])
    r:call("SET", name, "somebody else's")
    for _ = 1, 2 do -- by the small script, and by the other
      assert.are.equal("busy", select(3, store:try_lock(name)))
      assert.are.equal(0, #counters())
    end
    r:call("DEL", name)
    r:close()
  end)

  -- What is no counter. Some are numbers to Lua.
  local JUNK = { { "RPUSH", "a" }, { "HSET", "a", "b" }, "abc", "", "1.5",
    "1e3", "1e13", "0x10", "inf", "-inf", "nan", "+5", " 5", "5 ", "007", "-0",
    "13507056469860.5", "9223372036854775807", "9223372036854770000",
    "9007199254740992", "99999999999999999999", "100000000000000",
    "99999999999999" --[[ the next one ]] }

  local function spoil(r, counter, junk)
    r:call("DEL", counter)
    if type(junk) == "table" then
      r:call(junk[1], counter, junk[2], junk[3])
    else
      r:call("SET", counter, junk)
    end
  end

  it("a counter that cannot be counted up is invalid", function()
    local r, name = redis.connect(url), key .. "-counter"
    local counter = ("~dlock:%s:f:%s"):format(store:tag(name), name)
    local function refused(got, message, code)
      assert.is_nil(got)
      assert.are.equal("invalid", code, message)
    end
    for _, junk in ipairs(JUNK) do
      for _ = 1, 2 do -- by a script, and without one
        spoil(r, counter, junk)
        refused(store:try_lock(name))
        refused(store:lock(name, { timeout = 5 }))
        refused(store:rwlock(name):read():acquire { timeout = 5 })
        assert.are.equal(0, r:call("EXISTS", name))
        r:call("DEL", counter)
        assert(assert(store:try_lock(name)):release())
        assert(assert(store:try_lock(name)):release())
      end
    end
    r:call("DEL", counter)
    r:close()
  end)

  it("a counter that is none is told to a waiter at its turn", function()
    local r, name = redis.connect(url), key .. "-behind"
    local counter = ("~dlock:%s:f:%s"):format(store:tag(name), name)
    for _, junk in ipairs { { "RPUSH", "a" }, "abc", "100000000000000" } do
      spoil(r, counter, junk)
      for _, lock in ipairs { store:mutex(name), store:rwlock(name):read(),
          store:election(name) } do
        r:call("SET", name, "foreign", "PX", 300)
        local got, message, code = lock:acquire { timeout = 5 }
        assert.is_nil(got)
        assert.are.equal("invalid", code, message)
        eventually("nothing is left", 5, function()
          return r:queued(name) == 0 and r:call("EXISTS", name) == 0
        end)
      end
    end
    r:call("DEL", counter, name)
    assert(assert(store:lock(name, { timeout = 5 })):release())
    r:close()
  end)

  it("who waits behind a holder takes any counter that counts up", function()
    local r, name = redis.connect(url), key .. "-behind-low"
    local counter = ("~dlock:%s:f:%s"):format(store:tag(name), name)
    for _, low in ipairs { "0", "-5", "-9223372036854775808" } do
      r:call("SET", name, "foreign", "PX", 60000)
      r:call("SET", counter, low)
      local waiter = process.spawn { args = { url, name }, script = [[
        local store = require("dlock").open { url = arg[1], prefix = "" }
        local lease = assert(store:lock(arg[2], { timeout = 20 }))
        print(("%.0f"):format(lease.fence))
        lease:release()
      ]] }
      eventually("it queues", 5, function() return r:queued(name) == 1 end)
      r:call("DEL", name)
      assert.is_true(tonumber(waiter:read_line()) >= 1e12)
      assert.are.equal(0, waiter:wait())
    end
    r:close()
  end)

  it("what is no counter is no holder's fence", function()
    local r, name = redis.connect(url), key .. "-shown"
    -- The holder's own store knows its fence.
    local other = assert(dlock.open { url = url, prefix = "", name = "other" })
    local counter = ("~dlock:%s:f:%s"):format(store:tag(name), name)
    for _, junk in ipairs(JUNK) do
      local lease = assert(store:try_lock(name))
      spoil(r, counter, junk)
      local holder = assert(other:inspect(name)).holders[1]
      assert.is_nil(holder.fence, tostring(junk))
      assert(lease:release())
      r:call("DEL", counter)
    end
    other:close()
    r:close()
  end)

  it("a counter that is spoilt meanwhile is not the holder's matter", function()
    local r, name = redis.connect(url), key .. "-spoilt"
    local own = ("~dlock:%s:"):format(store:tag(name))
    local counter, queue = own .. "f:" .. name, own .. "q:" .. name
    for _, lock in ipairs { store:mutex(name), store:rwlock(name):read() } do
      for _, what in ipairs { "release", "break" } do
        local lease = assert(lock:acquire())
        r:call("SET", counter, "abc")
        local time = r:call("TIME") -- one that waits, and has just asked
        r:call("ZADD", queue, ("%s%06d"):format(time[1], time[2]),
          ("a"):rep(32) .. ":0123456789abcdef:")
        assert(lease:extend())
        if what == "release" then
          assert.is_true((assert(lease:release())))
        else
          assert.is_true((assert(store:break_lock(name))))
        end
        assert.are.equal(0, r:call("EXISTS", name))
        assert.are.equal("invalid", select(3, store:try_lock(name)))
        lease:release()
        r:call("DEL", counter, queue)
      end
    end
    r:close()
  end)

  it("a counter far below nothing begins at the clock", function()
    local r, name, last = redis.connect(url), key .. "-below", 0
    local counter = ("~dlock:%s:f:%s"):format(store:tag(name), name)
    for _, junk in ipairs { "-1", "-9223372036854775808",
      "-9007199254740993" } do
      for _ = 1, 4 do -- by a script, and then without one
        local lease = assert(store:try_lock(name))
        assert.is_true(lease.fence > last and lease.fence < 1e14)
        last = lease.fence
        assert.are.equal(("%.0f"):format(last), r:call("GET", counter))
        assert(lease:release())
        r:call("SET", counter, junk)
        junk = "5"
      end
    end
    r:close()
  end)

  it("a refusal because of another's data leaves nothing for ever", function()
    local r, name = redis.connect(url), key .. "-junk"
    local own = ("~dlock:%s:"):format(store:tag(name))
    assert(store:ping()) -- so that 0.1 s are for the question alone
    for _, part in ipairs { "w", "n", "q", "h", "p", "i" } do
      local junk = own .. part .. ":" .. name
      r:call("SET", name, "somebody else's")
      r:call("SET", junk, "x", "PX", 60000)
      for _, mode in ipairs { "read", "write" } do
        local rw = store:rwlock(name)
        local _, message, code = rw[mode](rw):acquire { timeout = 0.1 }
        assert.is_true(code == "invalid" or code == "timeout", message)
        for _, left in ipairs(r:call("KEYS", own .. "*")) do
          assert.is_true(r:call("PTTL", left) > 0, left)
        end
      end
      r:call("DEL", name, junk, own .. "q:" .. name, own .. "w:" .. name)
    end
    r:close()
  end)

  timed("a key that ends in 300 years is waited for in peace", function()
    local r, name = redis.connect(url), key .. "-far"
    r:call("SET", name, "somebody else's", "EX", "9999999999")
    local calls = r:command_counts().evalsha or 0
    assert.are.equal("timeout", select(3, store:lock(name, { timeout = 0.6 })))
    assert.is_true(r:command_counts().evalsha - calls < 20)
    local text = assert(assert(store:lock(key)):detach())
    r:call("EXPIRE", key, "9999999999")
    assert(assert(store:attach(text)):release())
    r:call("DEL", name)
    r:close()
  end)

  it("a lease without renewal has what is left of its key's ttl", function()
    local r = redis.connect(url)
    local lease = assert(store:lock(key, { ttl = 600, renew = false }))
    local text = assert(lease:detach())
    assert.is_true(r:call("PTTL", key) <= 600000)
    r:call("PEXPIRE", key, 9000)
    lease = assert(store:attach(text))
    assert.is_true(r:call("PTTL", key) <= 9000)
    assert.is_true(lease:remaining() <= 9, lease:remaining())
    text = assert(lease:detach())
    r:call("PEXPIRE", key, 3)
    assert.are.equal("lost", select(3, store:attach(text)))
    r:close()
  end)

  it("a key of another type is invalid, and left alone", function()
    local r = redis.connect(url)
    r:call("HSET", key, "a", "b")
    assert.are.equal("invalid", select(3, store:try_lock(key)))
    local got, message, code = store:lock(key, { timeout = 1 })
    assert.is_nil(got)
    assert.are.equal("invalid", code, message)
    assert.are.equal("b", r:call("HGET", key, "a"))
    r:close()
  end)
end)
