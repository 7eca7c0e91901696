-- What the torture does to three etcd members: that of ZooKeeper's servers, and
-- any of them can be cut off, also the leader.

local core = require "dlock.core"
local etcd = require "spec.support.etcd"
local service = require "spec.torture.service"
local uv = require "luv"
local zookeeper = require "spec.torture.nemesis.zookeeper"

local nemesis = setmetatable({ name = "etcd", portable = true },
  { __index = zookeeper })

local function write(url, seconds, done)
  local words, handle = etcd.command(url, "put", "/served", "",
    ("--command-timeout=%gs"):format(seconds)), nil
  handle = uv.spawn(words[1], { args = { (table.unpack or unpack)(words, 2) } },
    function(status)
      handle:close()
      done(status == 0, "etcdctl ended with " .. status)
    end)
end

-- Those that may revoke, when they go on, what a new leader has renewed
-- (docs/etcd.md).
local function is_old()
  local pipe = io.popen("etcd --version")
  local minor, patch = pipe:read("*l"):match("3%.(%d+)%.(%d+)")
  pipe:close()
  minor, patch = tonumber(minor), tonumber(patch)
  return minor == 4 and patch < 31 or minor == 5 and patch < 13
end

function nemesis.start()
  local self = setmetatable({ excused = {}, old = is_old() },
    { __index = nemesis })
  self.servers = etcd.start { members = 3, between = true }
  self.url = self.servers.url
  self.service = service.new(self.servers.urls, nil, write)
  return self
end

nemesis["end leader stop"] = function(self)
  zookeeper["end leader stop"](self)
  if self.old then
    table.insert(self.excused, { from = core.now(),
      to = core.now() + self.session_timeout })
  end
end

nemesis["cut off"] = function(self, fault)
  self.servers:cut(1 + math.floor(fault.draw * 3))
end

nemesis["end cut off"] = function(self)
  self.servers:join()
end

function nemesis:logs()
  local list = {}
  for i, one in ipairs(self.servers) do list[i] = one.dir .. "/etcd.log" end
  return list
end

--- Keys that a session still keeps; those of killed processes go with it.
function nemesis:leftovers()
  return etcd.keys(self.url, "/dlock/")
end

return nemesis
