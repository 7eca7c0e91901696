-- Values that dlock did not write, of every type and every time to live, at the
-- name of a lock and at each of the names beside it: whatever is asked then
-- ends in time with an answer or a code of the table, costs the server a
-- bounded number of requests, changes nothing at the lock's own name, which is
-- the user's, and works again once they are gone.

local unpack = table.unpack or unpack

local dlock = require "dlock"
local redis = require "spec.support.redis"

local KEY = "values"
local LOCK = "dlock:" .. KEY
-- It is the same C and the same scripts whatever Lua runs it.
local PARTS = _VERSION == "Lua 5.4" and { "f", "q", "w", "h", "p", "i", "n" }
  or {}
local CODES = {}
for code in ("busy timeout lost unavailable denied invalid"):gmatch("%a+") do
  CODES[code] = true
end

-- How each type is written, and how what stands there is read again.
local VALUES = {
  { "SET", "text" },
  { "SET", "-1" },
  { "SET", "9223372036854775807" },
  { "SET", "~s17" },
  { "SET", ("0"):rep(32) .. ":" .. ("0"):rep(16) .. ":x" },
  { "HSET", "g", "1" },
  { "HSET", "u", "x", "cap", "-3", "g", "~" },
  { "RPUSH", "a", "b" },
  { "SADD", "a" },
  { "ZADD", "-inf", "a" },
  { "ZADD", "1e300", ("f"):rep(32) .. ":" .. ("0"):rep(16) .. ":x" },
  { "XADD", "*", "a", "b" },
}

-- None; soon over; more than fits into 64 bits of nanoseconds.
local TTLS = { false, 150, 9223372036854 }

describe("foreign values on redis:", function()
  local server, r, store, tag

  setup(function()
    server = redis.start()
    r = server:connect()
    store = assert(dlock.open { url = server.url, timeout = 0.1, ttl = 2 })
    assert(store:lock(KEY, { timeout = 5 })):release()
    tag = r:call("KEYS", "~dlock:{*}:f:" .. LOCK)[1]:match("{(.*)}")
  end)

  teardown(function()
    store:close()
    r:close()
    server:stop()
  end)

  local function name_of(part)
    return part and ("~dlock:{%s}:%s:%s"):format(tag, part, LOCK) or LOCK
  end

  local function put(name, value, ttl)
    r:call("DEL", name)
    r:call(value[1], name, unpack(value, 2))
    if ttl then
      r:call("PEXPIRE", name, ttl)
    end
  end

  local function check(what, ok, message, code)
    if not ok and code ~= nil then
      assert(CODES[code], ("%s: %s (%s)"):format(what, tostring(message),
        tostring(code)))
      assert(message:find(code .. ": ", 1, true) == 1, message)
    end
    return ok
  end

  local function requests()
    return tonumber(r:call("INFO", "stats")
      :match("total_commands_processed:(%d+)"))
  end

  local function acquire(what, lockable, method, ...)
    local lease, message, code = lockable[method](lockable, ...)
    if check(what, lease, message, code) then
      check(what .. " extend", lease:extend(1))
      check(what .. " release", lease:release())
    end
  end

  local function ask_all(what)
    local rw = store:rwlock(KEY)
    acquire(what .. " lock", store:mutex(KEY), "acquire")
    acquire(what .. " try", store:mutex(KEY), "try_acquire")
    acquire(what .. " read", rw:read(), "try_acquire")
    acquire(what .. " permits", store:semaphore(KEY, 3), "acquire",
      { permits = 2 })
    acquire(what .. " campaign", store:election(KEY), "campaign",
      { timeout = 0.1, value = "v" })
    check(what .. " locked", store:mutex(KEY):locked())
    check(what .. " inspect", store:inspect(KEY))
    check(what .. " list", store:list())
    check(what .. " revoke", store:revoke(KEY))
  end

  local function works_again(what)
    r:call("FLUSHALL")
    local lease = assert(store:lock(KEY, { timeout = 5 }), what)
    assert.is_true(lease:release(), what)
  end

  local function try_value(part, value, ttl)
    local name = name_of(part)
    local what = ("%s %s ttl %s:"):format(part or "lock", table.concat(value,
      " "), tostring(ttl))
    put(name, value, ttl)
    local own = not part and value[1] == "SET" and r:call("DUMP", name)
    local before = requests()
    ask_all(what)
    -- Ten calls, some of which wait for 0.1 s: a head that asks on and on for a
    -- time to live that overflowed sends thousands.
    local cost = requests() - before
    assert(cost < 400, ("%s %d requests"):format(what, cost))
    if own and ttl ~= 150 then
      assert.are.equal(own, r:call("DUMP", name), what)
    end
    works_again(what)
  end

  for _, part in ipairs { false, unpack(PARTS) } do
    it(("at %s"):format(part and "~dlock:…:" .. part or "the lock's name"),
      function()
        for _, value in ipairs(VALUES) do
          for _, ttl in ipairs(TTLS) do
            try_value(part, value, ttl)
          end
        end
      end)
  end
end)
