-- What the torture does to a Redis: connections are killed, scripts forgotten,
-- the server stopped, killed and started again. With its append-only file
-- synced before each answer it comes back with all that it had answered; or
-- (`older`) with a snapshot from some seconds before it was killed.

local core = require "dlock.core"
local one_server = require "spec.torture.nemesis.one_server"
local redis = require "spec.support.redis"
local server = require "spec.support.server"

local nemesis = one_server.new { name = "redis", calm = 8, calls = {
  { name = "client kill", weight = 4, least = 0, most = 0 },
  { name = "script flush", weight = 2, least = 0, most = 0 },
} }

--- One on a private server.
function nemesis.start(dir, store)
  local older = store == "redis-older"
  local self = setmetatable({ dir = dir, older = older, excused = {} }, nemesis)
  local home = dir .. "/redis"
  assert(require("luv").fs_mkdir(home, 448))
  self.server = redis.start(older and {}
    or { appendonly = "yes", appendfsync = "always" }, home)
  self.url = self.server.url
  self.snapshot = self.server.data .. "/dump.rdb"
  return self
end

-- Runs fn(client) if the server answers; a fault may have hit it before.
local function ask(self, fn)
  local client = not self.down and self.server:connect()
  if client then
    fn(client)
    client:close()
  end
end

local TYPES = { "normal", "pubsub", "normal", "one" }

-- All connections of a type, or one.
nemesis["client kill"] = function(self, fault)
  ask(self, function(client)
    local kind = TYPES[1 + math.floor(fault.draw * #TYPES)]
    if kind ~= "one" then
      client:pcall("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
      return
    end
    local ids = {}
    for id in client:call("CLIENT", "LIST"):gmatch("id=(%d+)") do
      ids[#ids + 1] = id
    end
    client:pcall("CLIENT", "KILL", "ID",
      ids[1 + math.floor(fault.draw * 97) % #ids], "SKIPME", "yes")
  end)
end

nemesis["script flush"] = function(self)
  ask(self, function(client)
    client:pcall("SCRIPT", "FLUSH", "SYNC")
  end)
end

-- The snapshot that the next restart brings back.
local function keep(self)
  if self.older then
    ask(self, function(client)
      client:call("SAVE")
    end)
    self.kept = server.read_file(self.snapshot)
  end
end

nemesis["server stop"] = function(self)
  keep(self)
  one_server["server stop"](self)
end

for _, kind in ipairs { "server kill", "server restart" } do
  nemesis[kind] = function(self)
    self.killed = core.now()
    one_server[kind](self)
  end
end

-- Back, with what it had (or some time before); then two may hold until the
-- ttl of the older one is over.
nemesis["end server kill"] = function(self)
  if self.older then
    server.write_file(self.snapshot, self.kept or "")
    if not self.kept then
      os.remove(self.snapshot)
    end
  end
  one_server["end server kill"](self)
  if self.older then
    table.insert(self.excused, { from = self.killed,
      to = core.now() + self.ttl })
  end
  keep(self)
end

--- The names on the server but those of the fences, once there are none or
--- they have had their time.
function nemesis:leftovers()
  local client, left = assert(self.server:connect()), {}
  client:left_of("*", left)
  client:close()
  return left
end

return nemesis
