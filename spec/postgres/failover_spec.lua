-- A primary that is lost, and the standby that takes its place.

local common = require "spec.postgres.common"
local postgres = require "spec.support.postgres"

local open, now = common.open, common.now

describe("a standby", function()
  local two

  before_each(function() two = postgres.start { standbys = 1 } end)

  after_each(function()
    common.clean_up()
    two:stop()
  end)

  local function fence_of(lease, member)
    return member:sql(assert(lease:fence_sql()))
  end

  it("that is promoted without the last grant: fences rise, and the exact one"
    .. " refuses the older holder", function()
      local a = open { url = two.url, ttl = 60, io_timeout = 5 }
      local b = open { url = two.url, ttl = 60, io_timeout = 5 }
      assert(a:lock("k")):release()
      two[2]:catch_up(two[1])
      two[2]:hear_no_more()
      local old = assert(a:lock("k"))
      two[1]:kill()
      two[2]:promote()
      local new = assert(b:lock("k", { timeout = 20 }))
      assert.is_true(old:held()) -- both believe it
      assert.is_true(new.fence > old.fence)
      assert.equal("", fence_of(old, two[2]))
      assert.equal("1", fence_of(new, two[2]))
      assert.is_nil((old:extend()))
      assert.is_true(new:held())
      assert(new:release())
    end)

  it("that commits waited for has each grant that was answered", function()
    two[1]:wait_for_commits(true)
    local a = open { url = two.url, io_timeout = 5 }
    local b = open { url = two.url, io_timeout = 5 }
    for i = 1, 3 do
      local old = assert(a:lock("k" .. i, { timeout = 20 }))
      two:primary():wait_for_commits(true)
      two:fail_over()
      local lease, _, code = b:try_lock("k" .. i)
      assert.is_nil(lease)
      assert.equal("busy", code)
      assert.equal("1", fence_of(old, two:primary()))
      assert(old:release())
    end
  end)

  it("is passed over for the server that takes writes", function()
    local swapped = ("postgres://dlock:%s@127.0.0.1:%d,127.0.0.1:%d/dlock")
      :format(postgres.password, two[2].port, two[1].port)
    local store = open { url = swapped }
    assert(store:lock("k")):release()
    local alone = open { url = two[2].url, connect_timeout = 1,
      io_timeout = 1 }
    local began = now()
    local lease, message, code = alone:try_lock("k")
    assert.is_nil(lease)
    assert.equal("unavailable", code)
    assert.matches("read%-only", message)
    assert.is_true(now() - began < 5)
  end)
end)
