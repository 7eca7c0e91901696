-- Compiles a process with the shipped engine and Redis store (redis_client.c),
-- as shipped or with a fault put back.

local process = require "spec.support.process"
local program = require "spec.sim.program"
local redis_model = require "spec.sim.redis_model"
local server = require "spec.support.server"

local machine = {}
machine.__index = machine

-- What is ours, but for what talks to sockets and what is a thread: see
-- spec/sim/redis_host.h.
local LEFT_OUT = { net = true, conn = true, sock = true, handshake = true,
  sentinel = true, thread = true, tls = true }
local SOURCES = { "spec/sim/still_link.c" }
for _, name in ipairs { "client", "host", "link", "reply", "system", "wire" } do
  SOURCES[#SOURCES + 1] = "spec/sim/redis_" .. name .. ".c"
end
local list = assert(io.popen("find csrc/core csrc/loop csrc/engine "
  .. "csrc/net csrc/store/kit csrc/store/redis -name '*.c' | LC_ALL=C sort"))
for path in list:lines() do
  if not LEFT_OUT[path:match("([%w_]+)%.c$")] then
    SOURCES[#SOURCES + 1] = path
  end
end
list:close()

local function package_flags(name)
  local status, text = process.run {
    command = { "pkg-config", "--cflags", name } }
  assert(status == 0, name .. " is not known to pkg-config")
  return (text:gsub("%s+$", ""))
end

--- A directory for them, and the server scripts' texts.
function machine.new()
  local dir = server.new_dir()
  local lua = rawget(_G, "jit") and "luajit" or _VERSION:gsub("Lua ", "lua")
  return setmetatable({ dir = dir,
    texts = redis_model.texts(dir .. "/redis_scripts.h"),
    flags = ("-O0 -g0 -fPIC -DTHREADED -I%s %s %s %s"):format(dir,
      package_flags(lua), package_flags("hiredis"), package_flags("libuv")) },
    machine)
end

--- The module; fault: one of spec/faults, or nil.
function machine:load(name, fault)
  local path = program.build(self.dir, name .. ".so", SOURCES, fault,
    self.flags,
    "-shared -pthread -Wl,-z,nodelete -Wl,-Bsymbolic -lhiredis -luv", true)
  return assert(package.loadlib(path, "luaopen_redis_client"))()
end

function machine:remove() server.remove_dir(self.dir) end

return machine
