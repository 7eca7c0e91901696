-- dlock.compat.resty_lock in plain Lua: results and messages of lua-resty-lock,
-- as its README has them. spec/resty/resty_lock_spec.lua has nginx.
local dlock = require "dlock"
local process = require "spec.support.process"
local resty_lock = require "dlock.compat.resty_lock"
local server = require "spec.support.server"
local uv = require "luv"

local URL = assert(os.getenv("DLOCK_TEST_REDIS"), "run `make test`")

describe("dlock.compat.resty_lock", function()
  local store, key
  local count = 0

  local function all(...)
    return { n = select("#", ...), ... }
  end

  before_each(function()
    store = assert(dlock.open { url = URL, prefix = "resty_lock:" })
    resty_lock.use(store)
    count = count + 1
    key = ("%d:%d"):format(uv.os_getpid(), count)
  end)

  after_each(function() store:close(1) end)

  it("locks, unlocks and locks again, with its results", function()
    local lock = assert(resty_lock:new("my_locks"))
    assert.same({ n = 2, nil, "unlocked" }, all(lock:unlock()))
    assert.same({ n = 2, nil, "unlocked" }, all(lock:expire()))
    assert.same({ n = 2, nil, "nil key" }, all(lock:lock()))
    assert.same({ n = 1, 0 }, all(lock:lock(key)))
    assert.same({ n = 2, nil, "locked" }, all(lock:lock("another")))
    assert.same({ n = 1, true }, all(lock:expire()))
    assert.same({ n = 1, 1 }, all(lock:unlock()))
    assert.same({ n = 2, nil, "unlocked" }, all(lock:unlock()))
    assert.same({ n = 1, 0 }, all(lock:lock(5))) -- a number is a key too
    assert.same({ n = 1, 1 }, all(lock:unlock()))
  end)

  it("has no lock without the name of a dictionary", function()
    assert.same({ n = 2, nil, "dictionary not found" }, all(resty_lock:new()))
  end)

  it("keeps others out, by the name of the dictionary and the key", function()
    local one = assert(resty_lock:new("my_locks"))
    local two = assert(resty_lock:new("my_locks", { timeout = 0 }))
    local three = assert(resty_lock:new("others", { timeout = 0 }))
    assert(one:lock(key))
    assert.same({ n = 2, nil, "timeout" }, all(two:lock(key)))
    assert.same({ n = 1, 0 }, all(three:lock(key)))
    assert.equal(1, one:unlock())
    assert.same({ n = 1, 0 }, all(two:lock(key)))
    assert.equal(1, two:unlock())
    assert.equal(1, three:unlock())
  end)

  it("says how long it waited, and ends after exptime", function()
    local one = assert(resty_lock:new("my_locks", { exptime = 0.3 }))
    local two = assert(resty_lock:new("my_locks",
      { timeout = 5, step = 0.01, ratio = 3, max_step = 1 }))
    assert(one:lock(key))
    local elapsed = assert(two:lock(key))
    assert.is_true(elapsed > 0.05 and elapsed < 5, elapsed)
    local ok, message = one:unlock()
    assert.is_nil(ok)
    assert.matches("^lost: ", message)
    assert.equal(1, two:unlock()) -- is untouched by that
  end)

  it("waits no longer than exptime", function()
    local one = assert(resty_lock:new("my_locks"))
    local two = assert(resty_lock:new("my_locks",
      { exptime = 0.2, timeout = 60 }))
    assert(one:lock(key))
    local begun = uv.hrtime()
    assert.same({ n = 2, nil, "timeout" }, all(two:lock(key)))
    assert.is_true(uv.hrtime() - begun < 30e9)
    assert.equal(1, one:unlock())
  end)

  it("has a longer time after expire, each time from then", function()
    local one = assert(resty_lock:new("my_locks", { exptime = 0.5 }))
    assert(one:lock(key))
    assert.same({ n = 1, true }, all(one:expire(60)))
    uv.sleep(700)
    local two = assert(resty_lock:new("my_locks", { timeout = 0 }))
    assert.same({ n = 2, nil, "timeout" }, all(two:lock(key)))
    assert.equal(1, one:unlock())
  end)

  it("passes on what dlock says", function()
    local lock = assert(resty_lock:new("my_locks"))
    local result = all(lock:lock(("x"):rep(600)))
    assert.equal(2, result.n)
    assert.matches("^invalid: ", result[2])
    store:close()
    result = all(lock:lock(key))
    assert.equal(2, result.n)
    assert.matches("^closed: ", result[2])
    for _, bad in ipairs { URL, {}, 5 } do
      assert.has_error(function() resty_lock.use(bad) end)
    end
  end)

  it("uses the store of dlock.open without another", function()
    local dir = server.new_dir()
    server.write_file(dir .. "/program.lua", [[
      local lock = assert(require("dlock.compat.resty_lock"):new("d"))
      assert(lock:lock("k"))
      local _, _, code = require("dlock").open():try_lock("d:k")
      print(lock:unlock(), code)
    ]])
    local status, out, err = process.run { file = dir .. "/program.lua",
      env = { DLOCK_URL = "file://" .. dir .. "/locks" } }
    assert.equal("1\tbusy\n", out, err)
    assert.equal(0, status)
    server.remove_dir(dir)
  end)
end)
