-- with, when the store does not answer in the end: what fn did was done under
-- the lock if its deadline had not passed.

local dlock = require "dlock"
local meanwhile = require "spec.support.meanwhile"
local redis = require "spec.support.redis"
local steady = require "spec.support.steady"
local uv = require "luv"

describe("with, on a server that stops answering,", function()
  local one, store

  local function set_up()
    one = redis.start()
    store = assert(dlock.open { url = one.url, io_timeout = 0.2,
      connect_timeout = 0.2 })
  end

  local function tear_down()
    one:resume()
    store:close(1)
    one:stop()
  end

  local it = steady(set_up, tear_down)

  it("gives the results when the lease was still held", function()
    local release
    assert.are.same({ true, "result" }, { store:with("k", { ttl = 20 },
      function(lease)
        release = lease
        one:pause()
        return "result"
      end) })
    assert.is_false(release:held())
    assert.are.equal("unavailable", select(3, release:release()))
  end)

  it("says lost when the deadline had passed", function()
    local got, message, code, result = store:with("k",
      { ttl = 0.4, renew = false }, function(lease)
        one:pause()
        lease:wait_lost(5)
        return "result"
      end)
    assert.is_nil(got)
    assert.are.equal("lost", code)
    assert.is_truthy(message:find("^lost: "), message)
    assert.are.equal("result", result)
  end)

  it("says lost when one of several was, whatever the others say", function()
    local other = assert(dlock.open(os.getenv("DLOCK_TEST_REDIS")))
    local key = ("with:%d"):format(uv.os_getpid())
    local both = dlock.all {
      assert(other:mutex(key, { ttl = 0.4, renew = false })),
      assert(store:mutex(key .. "z")) }
    local got, message, code, result = both:with(function(lease)
      assert.is_true(lease:wait_lost(5))
      one:pause()
      return "result"
    end)
    assert.is_nil(got)
    assert.are.equal("lost", code, message)
    assert.is_truthy(message:find("^lost: .*unavailable"), message)
    assert.are.equal("result", result)
    assert(other:close(1))
  end)

  it("passes an error on, within a bounded time", function()
    local value = {}
    local ok, problem = pcall(store.with, store, "k", function()
      one:pause()
      error(value)
    end)
    assert.is_false(ok)
    assert.are.equal(value, problem)
  end)

  it("does not run fn when it cannot acquire", function()
    assert(store:ping(10))
    one:pause()
    local ran = false
    local got, message, code = store:with("k", { timeout = 0.3 }, function()
      ran = true
    end)
    assert.is_nil(got)
    assert.are.equal("unavailable", code, message)
    assert.is_false(ran)
  end)

  it("ends as a wait that was cancelled when the store is closed", function()
    local other = assert(dlock.open(one.url))
    local held = assert(other:lock("k"))
    assert(store:ping(10))
    local got, message, code = meanwhile.act(0.1, function()
      one:pause()
      store:close(0.1)
    end, function()
      return store:with("k", { timeout = 20 }, error)
    end)
    assert.is_nil(got)
    assert.are.equal("cancelled", code, message)
    one:resume()
    held:release()
    other:close(1)
  end)
end)
