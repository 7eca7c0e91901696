-- A primary that is lost, and the one that takes its place, on each database.

local mysql_pair = require "spec.support.mysql_pair"
local opened = require "spec.support.opened"
local postgres = require "spec.support.postgres"

local common = opened("failover", {})
local open = common.open

local STARTS = {
  PostgreSQL = function() return postgres.start { standbys = 1 } end,
  MariaDB = mysql_pair.start,
}

for database, start in pairs(STARTS) do
  describe(database .. ": a primary that is lost", function()
    local two

    before_each(function() two = start() end)

    after_each(function()
      common.clean_up()
      two:stop()
    end)

    local function fence_of(lease, member)
      return member:sql(assert(lease:fence_sql()))
    end

    it("without the last grant: fences rise, and the exact one refuses the"
      .. " older holder", function()
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

    it("that committed nothing alone: the other one has each grant that was"
      .. " answered", function()
        two.opts.synchronous = true
        two[1]:wait_for_commits(true)
        local a = open { url = two.url, io_timeout = 5 }
        local b = open { url = two.url, io_timeout = 5 }
        for i = 1, 3 do
          local old = assert(a:lock("k" .. i, { timeout = 20 }))
          two:fail_over()
          local lease, _, code = b:try_lock("k" .. i)
          assert.is_nil(lease)
          assert.equal("busy", code)
          assert.equal("1", fence_of(old, two:primary()))
          assert(old:release())
        end
      end)
  end)
end

describe("MariaDB: a commit that waits for the replica", function()
  local two

  before_each(function() two = mysql_pair.start { synchronous = true } end)

  after_each(function()
    common.clean_up()
    two:stop()
  end)

  it("is no grant before the replica has it", function()
    local store = open { url = two.url, io_timeout = 0.5 }
    assert(store:lock("k")):release()
    two[2]:hear_no_more()
    local lease, _, code = store:try_lock("other")
    assert.is_nil(lease)
    assert.equal("unavailable", code)
    assert(two[2]:sql "START SLAVE IO_THREAD")
    assert(store:lock("other", { timeout = 20 })):release()
  end)
end)
