-- What the calls of dlock.fallback say beside the locks that it gives:
-- locked, on_degraded and the list. A Redis that is killed and started again,
-- and the file store behind it.

local dlock = require "dlock"
local fallback_stores = require "spec.support.fallback_stores"
local steady = require "spec.support.steady"

describe("dlock.fallback", function()
  local both, first, a, b, seen, opened

  local function set_up()
    both, opened = fallback_stores.start { connect_timeout = 0.5 }, {}
    first, a, b, seen = both.server, both.first, both.second, both.seen
  end

  local function tear_down()
    for _, store in ipairs(opened) do store:close(0.2) end
    both:stop()
  end

  local timed = steady(set_up, tear_down)

  timed("is locked while a weaker lock is held in its place", function()
    local lock = both:over { grace = 0, hold_off = 60 }
    assert.is_false(lock:locked())
    assert(first:kill())
    local lease = fallback_stores.take_degraded(lock, { timeout = 2 })
    assert.is_true(lock:locked())
    first:start_again()
    assert(a:ping(10))
    assert.is_true(lock:locked())
    assert.is_true(both:over():locked())
    assert.is_true(lease:release())
    assert.is_false(lock:locked())
    local other = assert(a:lock("k", { timeout = 10 }))
    assert.is_true(lock:locked())
    assert.is_true(other:release())
  end)

  timed("takes an error in on_degraded for no", function()
    assert(first:kill())
    local lock = both:over { grace = 0, on_degraded = function()
      error "no time"
    end }
    local ok, lease, message, code = pcall(lock.acquire, lock, { timeout = 2 })
    assert.is_true(ok, lease)
    assert.is_nil(lease)
    assert.equal("unavailable", code)
    assert.matches("on_degraded", message)
    assert.same({ "callback" }, both:kinds())
    assert.equal("k", seen[1].key)
    assert.matches("on_degraded: .*no time", seen[1].message)
    assert.is_false(b:mutex("k"):locked())
    ok = pcall(lock.with, lock, { timeout = 2 }, error)
    assert.is_true(ok)
  end)

  timed("has no lock twice in its list", function()
    local again = assert(dlock.open { url = first.url })
    opened[1] = again
    for _, list in ipairs { { a:mutex "k", a:mutex "k" },
        { a:mutex "k", b:mutex "k", again:rwlock("k"):read() } } do
      local ok, problem = pcall(function() assert(dlock.fallback(list)) end)
      assert.is_false(ok)
      assert.matches("^%S*fallback_calls_spec.lua:", problem)
      assert.matches("list of dlock.fallback names the lock 'k' twice", problem)
    end
    assert(dlock.fallback { a:mutex "k", a:mutex "other", b:mutex "k" })
  end)
end)
