-- What the torture does to three Consul servers, of which the clients reach an
-- agent: that of ZooKeeper's, but for the cut.

local consul = require "spec.support.consul"
local service = require "spec.torture.service"
local uv = require "luv"
local zookeeper = require "spec.torture.nemesis.zookeeper"

local nemesis = setmetatable({ name = "consul" }, { __index = zookeeper })

-- A dead session ends within two of its times, and its locks after their delay.
nemesis.profile = {
  workers = 8, calm = 24, gap = 0.5,
  kinds = {
    { name = "stop", weight = 4, least = 0.5, most = 3 },
    { name = "long stop", weight = 4, least = 9, most = 13 },
    { name = "kill", weight = 2, least = 0.1, most = 1 },
    { name = "leader kill", weight = 3, least = 0.5, most = 4,
      class = "server", rest = 4 },
    { name = "leader stop", weight = 3, least = 2, most = 7,
      class = "server", rest = 4 },
    { name = "follower kill", weight = 2, least = 0.5, most = 3,
      class = "server", rest = 3 },
  },
}

local function write(url, seconds, done)
  local handle
  handle = uv.spawn("curl", { args = { "-sf", "--max-time",
    ("%g"):format(seconds), "-X", "PUT",
    url:gsub("^consul", "http") .. "/v1/kv/served" } }, function(status)
      handle:close()
      done(status == 0, "curl ended with " .. status)
    end)
end

function nemesis.start()
  local self = setmetatable({}, { __index = nemesis })
  self.servers = consul.start { members = 3, agent = true }
  self.url = self.servers.url
  self.service = service.new(self.servers.urls, nil, write)
  return self
end

function nemesis:logs()
  local list = {}
  for i, one in ipairs(self.servers) do list[i] = one.dir .. "/consul.log" end
  return list
end

--- Keys of locks. A dead session's epoch waits for another client's
--- (docs/consul.md).
function nemesis:leftovers()
  local left = {}
  for _, key in ipairs(consul.keys(self.url, "dlock/")) do
    if not key:find("^dlock/,%-") then left[#left + 1] = key end
  end
  return left
end

return nemesis
