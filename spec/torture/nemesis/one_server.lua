-- What the torture does to any store of one server: it is stopped, killed and
-- restarted, and its connections have faults of the store's own.
--
--   local nemesis = one_server.new { name = "redis", calm = 8, calls = … }
--   function nemesis.start(dir, store) … self.server, self.url … end
--
-- self.server: pause, resume, kill, shut_down, start_again.

local one_server = {}
one_server.__index = one_server

--- calm: seconds without faults; calls: the faults of its connections.
function one_server.new(opts)
  local nemesis = setmetatable({ name = opts.name, ttl = 1, io_timeout = 1,
    portable = true }, one_server)
  nemesis.__index = nemesis
  local kinds = {
    { name = "stop", weight = 3, least = 0.2, most = 1 },
    { name = "long stop", weight = 5, least = 1.3, most = 3 },
    { name = "kill", weight = 4, least = 0.1, most = 1 },
  }
  for _, kind in ipairs(opts.calls) do
    kind.class = "calls"
    kinds[#kinds + 1] = kind
  end
  for _, kind in ipairs {
    { name = "server stop", weight = 2, least = 0.3, most = 2.5, rest = 1 },
    { name = "server kill", weight = 2, least = 0.1, most = 1.5, rest = 2 },
    { name = "server restart", weight = 1, least = 0.1, most = 1, rest = 2 },
  } do
    kind.class = "server"
    kinds[#kinds + 1] = kind
  end
  nemesis.profile = { workers = 8, calm = opts.calm, gap = 0.6, kinds = kinds }
  return nemesis
end

one_server["server stop"] = function(self)
  self.down = true
  self.server:pause()
end

one_server["end server stop"] = function(self)
  self.server:resume()
  self.down = false
end

one_server["server kill"] = function(self)
  self.down = true
  self.server:kill()
end

one_server["end server kill"] = function(self)
  self.server:start_again()
  self.down = false
end

one_server["server restart"] = function(self)
  self.down = true
  self.server:shut_down()
end

one_server["end server restart"] = function(self)
  self["end server kill"](self)
end

function one_server:heal() end

function one_server:stop()
  self.server:stop()
end

return one_server
