-- A URL that takes a Sentinel for a Redis, or a Redis for a Sentinel: found at
-- once, and named. And a Sentinel that names a replica, which is named too.
local dlock = require "dlock"
local fake_server = require "spec.support.fake_server"
local refused = require "spec.support.refused"
local sentinel = require "spec.support.sentinel"

describe("the URL of a Redis that names a Sentinel", function()
  local set

  before_each(function()
    set = sentinel.start { replicas = 1, sentinels = 1, down_after = 30000 }
  end)

  after_each(function() set:stop() end)

  it("is invalid at once, whatever the Sentinel says of passwords", function()
    local place = "127.0.0.1:" .. set.sentinels[1].port
    for _, user in ipairs { "", ":secret@", "me:secret@" } do
      local store = assert(dlock.open { url = "redis://" .. user .. place,
        wait_replicas = 1, connect_timeout = 30, io_timeout = 30 })
      local messages = refused(store, 20, "invalid",
        "^invalid: .*redis://%S+: what answers there is a Sentinel;"
        .. " use redis%+sentinel://")
      assert.is_nil(table.concat(messages):find("secret", 1, true))
    end
  end)

  it("is invalid at once when it is Valkey's", function()
    local info = "redis_version:7.2.4\r\nserver_name:valkey\r\n"
      .. "server_mode:sentinel\r\n"
    local said = fake_server.start {
      INFO = ("$%d\r\n%s\r\n"):format(#info, info),
      CLIENT = "-ERR unknown command 'CLIENT'\r\n",
    }
    refused(assert(dlock.open(said.url)), 20, "invalid",
      "what answers there is a Sentinel; use redis%+sentinel://")
    said:stop()
  end)

  it("or of a Sentinel that names a Redis is invalid at once", function()
    local place = "127.0.0.1:" .. set.nodes[1].port
    refused(assert(dlock.open { url = "redis+sentinel://" .. place
      .. "/mymaster", connect_timeout = 30, io_timeout = 30 }), 20, "invalid",
      "the Sentinel " .. place .. " is no Sentinel; check host and port")
  end)

  it("and a replica that is named as the primary is named", function()
    local replica = set:replica().port
    local said = fake_server.start {
      ["SENTINEL GET-MASTER-ADDR-BY-NAME"] =
        ("*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%d\r\n"):format(#tostring(replica),
          replica),
      ["SENTINEL MASTER"] = "-ERR no\r\n",
    }
    local store = assert(dlock.open {
      url = "redis+sentinel://127.0.0.1:" .. said.port .. "/m" })
    refused(store, 20, "unavailable",
      "the primary 127%.0%.0%.1:" .. replica .. ": .*is a replica")
    said:stop()
  end)
end)
