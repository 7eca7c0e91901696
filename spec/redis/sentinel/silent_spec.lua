-- One Sentinel of the list accepts connections and says nothing, as a process
-- that hangs does: what the others say is told all the same, when it names no
-- primary, too.
local dlock = require "dlock"
local fake_server = require "spec.support.fake_server"
local refused = require "spec.support.refused"

local SILENT = { ["*"] = fake_server.SILENT }

local UNKNOWN = {
  ["SENTINEL MASTER"] = "-ERR No such master with that name\r\n",
  ["SENTINEL GET-MASTER-ADDR-BY-NAME"] = "*-1\r\n",
}

local function naming(port)
  return {
    ["SENTINEL MASTER"] = "-ERR no\r\n",
    ["SENTINEL GET-MASTER-ADDR-BY-NAME"] =
      ("*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%d\r\n"):format(#tostring(port), port),
  }
end

describe("what Sentinels say beside one that is silent", function()
  local list = {}

  after_each(function()
    for i = #list, 1, -1 do
      list[i]:stop()
      list[i] = nil
    end
  end)

  local function open(...)
    local hosts = {}
    for i, rules in ipairs { ... } do
      list[i] = fake_server.start(rules)
      hosts[i] = "127.0.0.1:" .. list[i].port
    end
    return assert(dlock.open { url = "redis+sentinel://"
      .. table.concat(hosts, ",") .. "/m", sentinel_password = "hush",
      connect_timeout = 1, io_timeout = 3 })
  end

  it("is invalid where nobody knows the name", function()
    refused(open(UNKNOWN, UNKNOWN, SILENT), 20, "invalid",
      "these Sentinels do not know a primary of the name 'm'")
  end)

  it("is denied where the password is wrong", function()
    local wrong = { AUTH = "-WRONGPASS no\r\n" }
    refused(open(SILENT, wrong, wrong), 20, "denied",
      "refuses us; check sentinel_username and sentinel_password")
  end)

  it("names both addresses where they do not agree", function()
    local store = open(naming(1), SILENT, naming(2))
    local _, message, code = store:ping()
    assert.are.equal("unavailable", code)
    assert.matches("do not agree: one names 127%.0%.0%.1:1, another one"
      .. " 127%.0%.0%.1:2", message)
    store:close()
  end)
end)
