-- Numbers that dlock keeps in hashes beside a lock, and that another program
-- wrote over: each of them is a number of ours or it is none, whatever Lua or C
-- would make of its text. What it stood for is then given to nobody.

local unpack = table.unpack or unpack

local dlock = require "dlock"
local redis = require "spec.support.redis"

local URL = os.getenv("DLOCK_TEST_REDIS")

-- All but two are numbers to Lua. `false`: the field is gone.
local JUNK = { "x", "", "-3", "+1", "1e0", "1e9", "0x1", "inf", "-inf", "nan",
  "1.5", " 1", "1 ", "99999999999999999", false }

describe("numbers beside a lock on redis:", function()
  local store, other, r, key, lock, tag
  local count = 0

  before_each(function()
    count = count + 1
    r = redis.connect()
    store, other = assert(dlock.open(URL)), assert(dlock.open(URL))
    key = ("hashes-%d-%d"):format(r:call("CLIENT", "ID"), count)
    lock, tag = "dlock:" .. key, store:tag(key)
  end)

  after_each(function()
    store:close()
    other:close()
    for _, part in ipairs { "f", "q", "w", "h", "p", "i", "n" } do
      r:call("DEL", ("~dlock:%s:%s:%s"):format(tag, part, lock))
    end
    r:call("DEL", lock)
    r:close()
  end)

  local function write(part, field, junk)
    local name = ("~dlock:%s:%s:%s"):format(tag, part, lock)
    assert.are.equal(1, r:call("EXISTS", name))
    if junk then
      r:call("HSET", name, field, junk)
    else
      r:call("HDEL", name, field)
    end
  end

  local function refused(code, got, message, its)
    assert.is_nil(got)
    assert.are.equal(code, its, message)
    assert.is_nil(message:find("script", 1, true), message)
    return message
  end

  -- A lock whose count is lost is held by another's value, until that ends.
  for _, field in ipairs { "u", "cap" } do
    for _, junk in ipairs(JUNK) do
      it(("%s of '%s' gives nobody a permit"):format(field, tostring(junk)),
        function()
          local three = other:semaphore(key, 3)
          local lease = assert(store:semaphore(key, 3):acquire { permits = 2 })
          local value = r:call("GET", lock)
          write("p", field, junk)
          refused("busy", three:try_acquire { permits = 3 })
          refused("busy", three:try_acquire())
          refused("timeout", three:acquire { timeout = 0.05 })
          assert.is_true(three:locked())
          local seen = assert(other:inspect(key))
          assert.are.equal("exclusive", seen.mode)
          assert.are.equal("shared holders", seen.holders[1].owner)
          refused("lost", lease:extend())
          assert.is_true((other:revoke(key)))
          assert.are.equal(value, r:call("GET", lock))
          assert.is_true((other:break_lock(key)))
          assert(assert(three:try_acquire { permits = 3 }):release())
        end)
    end
  end

  for _, junk in ipairs { "7", unpack(JUNK) } do
    it(("a holder's units of '%s' free none"):format(tostring(junk)), function()
      local three = other:semaphore(key, 3)
      local first = assert(store:semaphore(key, 3):acquire { permits = 2 })
      local token = r:call("ZRANGE",
        ("~dlock:%s:h:%s"):format(tag, lock), 0, 0)[1]
      local last = assert(store:semaphore(key, 3):acquire())
      write("p", token, junk)
      assert.are.equal(2, #assert(other:inspect(key)).holders)
      assert.is_true((first:release()))
      refused("busy", three:try_acquire())
      assert.is_true(last:extend() > 0)
      assert.is_true((last:release()))
      assert(assert(three:try_acquire { permits = 3 }):release())
    end)
  end

  for _, junk in ipairs { "7", unpack(JUNK) } do
    it(("a detached holder's units of '%s' end no hold"):format(tostring(junk)),
      function()
        local three = other:semaphore(key, 3)
        local first = assert(store:semaphore(key, 3):acquire { permits = 2 })
        local token = r:call("ZRANGE",
          ("~dlock:%s:h:%s"):format(tag, lock), 0, 0)[1]
        local text = assert(first:detach())
        write("p", token, junk)
        local lease = assert(other:attach(text))
        assert.are.equal(first.fence, lease.fence)
        refused("lost", store:attach(text))
        assert.is_true(lease:extend() > 0)
        assert.are.equal(1, #assert(other:inspect(key)).holders)
        assert.is_true((lease:release()))
        assert(assert(three:try_acquire { permits = 3 }):release())
      end)
  end

  -- A hand-off is good for a claim, which is a second at most: whoever it is
  -- written for may be dead. units: 1 of a reader.
  for _, units in ipairs { 0, 1 } do
    for _, claim in ipairs { "1000", "1795460963959", "10000", "0", "x", "" } do
      it(("a claim of '%s' is a short one or none, units %d")
        :format(claim, units), function()
        local lease, listener = assert(store:lock(key)), redis.connect()
        local token = ("a"):rep(32) .. ":" .. ("b"):rep(16) .. ":x"
        listener:call("SUBSCRIBE", "~dlock:c:" .. ("b"):rep(16))
        local time = r:call("TIME")
        local seen = time[1] .. ("%03d"):format(math.floor(time[2] / 1000))
        local function name(part)
          return ("~dlock:%s:%s:%s"):format(tag, part, lock)
        end
        r:call("ZADD", name "q", seen .. "000.5", token)
        r:call("HSET", name "w", token,
          ("%s 1000 %d 0 %s"):format(seen, units, claim))
        assert.is_true((lease:release()))
        assert.is_true(r:call("PTTL", lock) <= 1000)
        if claim ~= "1000" then assert.equal(0, r:call("EXISTS", lock)) end
        assert.equal(0, r:call("EXISTS", name "q", name "w"))
        listener:close()
      end)
    end
  end
end)
