-- Which addresses the ZooKeeper store connects to where a machine has only one
-- family of them beside its loopback. The client library's resolver leaves out
-- the other family then, be it what the loopback has. In network namespaces; a
-- socket that is listened on stands for the server, which is never asked.

local apart = require "spec.support.apart"
local process = require "spec.support.process"

local FAMILIES = {
  IPv4 = "ip addr add 192.0.2.7/32 dev lo",
  IPv6 = "ip addr add 2001:db8::7/128 dev lo nodad",
}

local SCRIPT = [[
  local dlock = require "dlock"
  local uv = require "luv"
  local came = false
  local server = uv.new_tcp()
  assert(server:bind(ADDRESS, 2181))
  server:listen(8, function() came = true end)
  local store = assert(dlock.open { url = URL, io_timeout = 1 })
  local _, message = store:ping(1)
  uv.run "nowait"
  print(came and "connected" or message)
  store:close()
]]

describe("a ZooKeeper URL names", function()
  after_each(process.close_all)

  for _, case in ipairs {
    { "IPv4", "127.0.0.1", "127.0.0.1" },
    { "IPv4", "127.0.0.1", "localhost" },
    { "IPv6", "127.0.0.1", "127.0.0.1" },
    { "IPv6", "127.0.0.1", "localhost" },
    { "IPv6", "127.0.0.1", "[::1]:9,127.0.0.1" },
    { "IPv6", "::1", "[::1]" },
  } do
    local family, listens, names = case[1], case[2], case[3]

    it(names .. " where interfaces have " .. family .. " only: it is found",
      function()
        local command = apart("--net", "ip link set lo up\n"
          .. FAMILIES[family])
        for _, word in ipairs { process.lua, "-e",
            ("ADDRESS, URL = %q, %q "):format(listens, "zookeeper://" .. names)
            .. SCRIPT } do
          command[#command + 1] = word
        end
        local p = process.spawn { command = command, tested = true }
        assert.are.equal("connected", p:read_line(20))
      end)
  end
end)
