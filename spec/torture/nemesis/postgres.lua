-- What the torture does to a PostgreSQL server: backends are ended, another
-- program locks dlock's rows, the server is stopped, killed and restarted. What
-- it has answered is there again.

local postgres = require "spec.support.postgres"

local nemesis = { name = "postgres", ttl = 1, io_timeout = 1, portable = true }

nemesis.profile = {
  workers = 8, calm = 10, gap = 0.6,
  kinds = {
    { name = "stop", weight = 3, least = 0.2, most = 1 },
    { name = "long stop", weight = 5, least = 1.3, most = 3 },
    { name = "kill", weight = 4, least = 0.1, most = 1 },
    { name = "backend kill", weight = 5, least = 0, most = 0,
      class = "calls" },
    { name = "row lock", weight = 3, least = 0.3, most = 2.5,
      class = "calls" },
    { name = "server stop", weight = 2, least = 0.3, most = 2.5,
      class = "server", rest = 1 },
    { name = "server kill", weight = 2, least = 0.1, most = 1.5,
      class = "server", rest = 2 },
    { name = "server restart", weight = 1, least = 0.1, most = 1,
      class = "server", rest = 2 },
  },
}

--- One on a private server.
function nemesis.start()
  local self = setmetatable({ up = true }, { __index = nemesis })
  self.servers = postgres.start { max_connections = 200 }
  self.server = self.servers[1]
  self.url = self.server.url
  return self
end

-- One connection, or half of them.
nemesis["backend kill"] = function(self, fault)
  if not self.up then return "none" end
  self.server:sql(([[
    SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
      WHERE usename = 'dlock' ORDER BY random()
      LIMIT (SELECT CASE WHEN %.3f < 0.5 THEN 1 ELSE count(*) / 2 END
        FROM pg_stat_activity WHERE usename = 'dlock')) AS some]])
    :format(fault.draw))
end

-- All rows of keys at once, as a careless program or a dump may have them.
nemesis["row lock"] = function(self)
  if not self.up then return "none" end
  self.other = self.server:session()
  self.other:send("BEGIN; SELECT count(*) FROM (SELECT 1 FROM dlock.key FOR"
    .. " UPDATE) k")
end

nemesis["end row lock"] = function(self)
  if self.other then self.other:close() end
  self.other = nil
end

nemesis["server stop"] = function(self)
  self.up = false
  self.server:pause()
end

nemesis["end server stop"] = function(self)
  self.server:resume()
  self.up = true
end

nemesis["server kill"] = function(self)
  self.up = false
  self.server:kill()
end

nemesis["end server kill"] = function(self)
  self.server:start_again()
  self.up = true
end

nemesis["server restart"] = function(self)
  self.up = false
  self.server:shut_down()
end

nemesis["end server restart"] = nemesis["end server kill"]

function nemesis:heal() end

function nemesis:logs()
  return { self.server.dir .. "/postgres.log" }
end

--- Rows of holds and waiters whose time is not over; rows of keys stay a day.
function nemesis:leftovers()
  local left = {}
  for line in assert(self.server:sql [[
      SELECT 'held ' || encode(id, 'escape') FROM dlock.key
        WHERE until > clock_timestamp()
      UNION ALL SELECT 'shared ' || encode(id, 'escape') FROM dlock.hold
        WHERE until > clock_timestamp()
      UNION ALL SELECT 'waited for ' || encode(id, 'escape') FROM dlock.wait
        WHERE alive > clock_timestamp()]]):gmatch("[^\n]+") do
    left[#left + 1] = line
  end
  return left
end

function nemesis:stop()
  self.servers:stop()
end

return nemesis
