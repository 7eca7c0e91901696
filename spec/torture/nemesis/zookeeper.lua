-- What the torture does to three ZooKeeper servers: the leader is killed or
-- stopped, a follower is killed, and one is cut off from the leader while its
-- clients still reach it. One of them at a time, so that a majority lives.
-- Whether the servers serve is asked all the time (spec/torture/service.lua).

local core = require "dlock.core"
local loop = require "spec.support.loop"
local service = require "spec.torture.service"
local zk = require "spec.support.zk"
local zk_ensemble = require "spec.support.zk_ensemble"

local nemesis = { name = "zookeeper", ttl = 1, io_timeout = 1.5,
  session_timeout = 4, portable = false }

local HEAL = 20 -- seconds for an election and all that follows it

nemesis.profile = {
  workers = 8, calm = 16, gap = 0.5,
  kinds = {
    { name = "stop", weight = 4, least = 0.5, most = 3 },
    { name = "long stop", weight = 4, least = 6.5, most = 9 },
    { name = "kill", weight = 2, least = 0.1, most = 1 },
    { name = "leader kill", weight = 3, least = 0.5, most = 4,
      class = "server", rest = 4 },
    { name = "leader stop", weight = 3, least = 2, most = 7,
      class = "server", rest = 4 },
    { name = "follower kill", weight = 2, least = 0.5, most = 3,
      class = "server", rest = 3 },
    { name = "cut off", weight = 4, least = 2, most = 8, class = "server",
      rest = 3 },
  },
}

function nemesis.start()
  local self = setmetatable({}, { __index = nemesis })
  self.servers = zk_ensemble.start { sync_limit = 6 }
  self.url = self.servers.url
  self.service = service.new(self.servers.urls)
  return self
end

local function kill(self, id)
  self.broken = id
  if id then
    self.servers:kill(id)
  end
end

nemesis["leader kill"] = function(self)
  kill(self, self.servers:leader())
end

nemesis["follower kill"] = function(self, fault)
  local leader = self.servers:leader()
  kill(self, leader and (leader + (fault.draw < 0.5 and 0 or 1)) % 3 + 1)
end

nemesis["end leader kill"] = function(self)
  if self.broken then
    self.servers:start_again(self.broken)
  end
end

nemesis["end follower kill"] = nemesis["end leader kill"]

nemesis["leader stop"] = function(self)
  self.broken = self.servers:leader()
  if self.broken then
    self.servers:pause(self.broken)
  end
end

nemesis["end leader stop"] = function(self)
  if self.broken then
    self.servers:resume(self.broken)
  end
end

-- The one that can be cut off is killed when it leads, and follows from then
-- on.
nemesis["cut off"] = function(self, fault)
  self.broken = nil
  if not self.servers:cut_off(fault.draw < 0.5 and "reset" or "hold") then
    kill(self, self.servers.last)
    return "leader kill"
  end
end

nemesis["end cut off"] = function(self)
  if self.broken then
    self.servers:start_again(self.broken)
  else
    self.servers:join()
  end
end

--- Each of the three commits writes again: "Mode: follower" does not prove it.
--- Should they not come to that by themselves, the leader is killed; then this
--- says so.
function nemesis:heal()
  local from = core.now()
  local function served()
    return self.service:served_since(from)
  end
  if pcall(loop.eventually, "each server commits", HEAL, served) then
    return
  end
  local leader = self.servers:leader()
  if leader then
    self.servers:kill(leader)
    self.servers:start_again(leader)
  end
  loop.eventually("three servers that commit", 60, served)
  return "restart of a leader that did not serve"
end

--- When which server did not commit a write: { from, to, server, why }.
function nemesis:silences()
  return self.service.silences
end

--- Paths of what the servers said.
function nemesis:logs()
  return self.servers:logs()
end

--- Nodes that a session still keeps; those of killed processes go with it.
function nemesis:leftovers()
  local left = {}
  local url = self.servers.urls[self.servers:leader()]
  for session, paths in pairs(zk.ephemerals(url)) do
    for _, path in ipairs(paths) do left[#left + 1] = session .. " " .. path end
  end
  return left
end

function nemesis:stop()
  self.service:stop()
  self.servers:stop()
end

return nemesis
