-- What the torture does to three ZooKeeper servers: the leader is killed or
-- stopped, a follower is killed, and one is cut off from the leader while its
-- clients still reach it. One of them at a time, so that a majority lives.
-- Whether the servers serve is asked all the time (spec/torture/service.lua).

local core = require "dlock.core"
local loop = require "spec.support.loop"
local proxy = require "spec.support.proxy"
local service = require "spec.torture.service"
local zk = require "spec.support.zk"

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
  local self = setmetatable({ proxies = {} }, { __index = nemesis })
  self.servers = zk.start_ensemble(3, { sync_limit = 6,
    between = function(port)
      local one = proxy.start("127.0.0.1:" .. port)
      table.insert(self.proxies, one)
      return one.port
    end })
  self.url = self.servers.url
  local urls = {}
  for id, one in ipairs(self.servers) do
    urls[id] = one.url
  end
  self.service = service.new(urls)
  return self
end

-- The number of the leader; there is one soon, as a majority lives.
local function find_leader(self)
  local leader
  pcall(loop.eventually, "a leader", 20, function()
    leader = self.servers:leader()
    return leader
  end)
  return leader
end

local function kill(self, id)
  self.broken = id
  if id then
    self.servers[id]:kill()
  end
end

nemesis["leader kill"] = function(self)
  kill(self, find_leader(self))
end

nemesis["follower kill"] = function(self, fault)
  local leader = find_leader(self)
  kill(self, leader and (leader + (fault.draw < 0.5 and 0 or 1)) % 3 + 1)
end

nemesis["end leader kill"] = function(self)
  if self.broken then
    self.servers[self.broken]:start_again()
  end
end

nemesis["end follower kill"] = nemesis["end leader kill"]

nemesis["leader stop"] = function(self)
  self.broken = find_leader(self)
  if self.broken then
    self.servers[self.broken]:pause()
  end
end

nemesis["end leader stop"] = function(self)
  if self.broken then
    self.servers[self.broken]:resume()
  end
end

-- The last server reaches the others through proxies, while it follows. When
-- it leads it is killed, and follows from then on.
nemesis["cut off"] = function(self, fault)
  self.broken = nil
  if find_leader(self) == #self.servers then
    kill(self, #self.servers)
    return "leader kill"
  end
  for _, one in ipairs(self.proxies) do
    one:refuse(true)
    if fault.draw < 0.5 then
      one:reset()
    else
      one:hold("both")
    end
  end
end

nemesis["end cut off"] = function(self)
  if self.broken then
    self.servers[self.broken]:start_again()
    return
  end
  for _, one in ipairs(self.proxies) do
    one:refuse(false)
    one:discard()
    one:reset()
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
  local leader = find_leader(self)
  if leader then
    self.servers[leader]:kill()
    self.servers[leader]:start_again()
  end
  loop.eventually("three servers that commit", 60, served)
  return "restart of a leader that did not serve"
end

--- When which server did not commit a write: { from, to, server, why }.
function nemesis:silences()
  return self.service.silences
end

--- What the servers said.
function nemesis:logs()
  local list = {}
  for _, one in ipairs(self.servers) do
    for _, path in ipairs(one:logs()) do
      list[#list + 1] = path
    end
  end
  return list
end

--- Nodes that a session still keeps; those of killed processes go with it.
function nemesis:leftovers()
  local left
  pcall(loop.eventually, "no ephemeral node", 30, function()
    left = {}
    local leader = find_leader(self)
    local url = self.servers[leader].url
    for session, paths in pairs(zk.ephemerals(url)) do
      for _, path in ipairs(paths) do
        left[#left + 1] = session .. " " .. path
      end
    end
    return #left == 0
  end)
  return left
end

function nemesis:stop()
  self.service:stop()
  for _, one in ipairs(self.proxies) do
    one:stop()
  end
  self.servers:stop()
end

return nemesis
