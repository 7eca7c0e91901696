-- A standby beside its primary (one that takes over: spec/sql/failover_spec).

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
