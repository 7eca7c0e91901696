-- What the torture does to a Redlock of five: one or two of its servers are
-- stopped, or killed and started again. They keep each write.

local redlock = require "spec.support.redlock"
local uv = require "luv"

local nemesis = { name = "redlock", ttl = 1, io_timeout = 1, portable = true,
  plain = true }

-- The calms are long: without a queue nobody is promised a turn, and one who is
-- unlucky among eight waits for several others.
nemesis.profile = {
  workers = 8, calm = 16, gap = 0.6,
  kinds = {
    { name = "stop", weight = 3, least = 0.2, most = 1 },
    { name = "long stop", weight = 5, least = 1.3, most = 3 },
    { name = "kill", weight = 4, least = 0.1, most = 1 },
    { name = "server stop", weight = 3, least = 0.3, most = 2.5,
      class = "first server" },
    { name = "server kill", weight = 3, least = 0.1, most = 1.5,
      class = "first server", rest = 1 },
    { name = "other server stop", weight = 3, least = 0.3, most = 2.5,
      class = "second server" },
    { name = "other server kill", weight = 3, least = 0.1, most = 1.5,
      class = "second server", rest = 1 },
  },
}

function nemesis.start(dir)
  local self = setmetatable({ dir = dir, excused = {} }, { __index = nemesis })
  self.set = redlock.start { new_dir = function(name)
    assert(uv.fs_mkdir(dir .. "/" .. name, 448))
    return dir .. "/" .. name
  end }
  self.url = self.set.url
  return self
end

-- One of the first three, or of the last two.
for name, from in pairs { ["server"] = 1, ["other server"] = 4 } do
  for _, way in ipairs { { "stop", "pause", "resume" },
      { "kill", "kill", "start_again" } } do
    local function of(self, fault)
      local most = from == 1 and 3 or 2
      return self.set.nodes[from + math.floor(fault.draw * most)]
    end
    nemesis[name .. " " .. way[1]] = function(self, fault)
      local node = of(self, fault)
      node[way[2]](node)
    end
    nemesis["end " .. name .. " " .. way[1]] = function(self, fault)
      local node = of(self, fault)
      node[way[3]](node)
    end
  end
end

function nemesis:heal() end

--- The names on the servers but those of the fences, once there are none or
--- they have had their time.
function nemesis:leftovers()
  local left = {}
  self.set:each(function(client) client:left_of("*", left) end)
  return left
end

function nemesis:stop()
  self.set:stop()
end

return nemesis
