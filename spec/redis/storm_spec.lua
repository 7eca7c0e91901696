-- Connections that end as soon as they are ready, again and again: an admin's
-- script, a proxy, a server in trouble. Each handshake costs the server more
-- than all that a client asks of it in a second.
local dlock = require "dlock"
local private_redis = require "spec.support.private_redis"
local process = require "spec.support.process"
local uv = require "luv"

describe("a client whose connections are ended", function()
  local private, admin

  private_redis(function(...) private, admin = ... end)

  after_each(function() process.close_all() end)

  local function connections()
    return tonumber(admin:call("INFO", "stats")
      :match "total_connections_received:(%d+)")
  end

  it("again and again connects again ever less often", function()
    local store = assert(dlock.open(private.url))
    local lease = assert(store:lock("storm", { ttl = 60 }))
    local p = process.spawn { args = { private.url }, script = [[
      local store = assert(require("dlock").open(arg[1]))
      print("waits")
      local lease = assert(store:lock("storm", { timeout = 60 }))
      print("got", lease:release())
    ]] }
    p:expect "^waits$"
    local mine = admin:call("CLIENT", "ID")
    local before, ended = connections(), 0
    -- All that is there, each 5 ms or later.
    for _ = 1, 400 do
      for id in admin:call("CLIENT", "LIST"):gmatch "id=(%d+)" do
        if tonumber(id) ~= mine then
          ended = ended + (admin:call("CLIENT", "KILL", "ID", id) or 0)
        end
      end
      uv.sleep(5)
    end
    local made = connections() - before
    assert.is_true(ended > 4)
    assert.is_true(made < 80, made .. " connections")
    assert(lease:release())
    p:expect("^got\ttrue$", 30)
    store:close(1)
  end)
end)
