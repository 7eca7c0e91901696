-- What the torture does to the file store: there is no server, so all that can
-- happen happens to the workers (spec/torture/main.lua).

local clock = require "spec.support.clock"
local process = require "spec.support.process"
local server = require "spec.support.server"
local uv = require "luv"

local file = { name = "file", ttl = 1, io_timeout = 1, portable = false }

file.profile = {
  workers = 8, calm = 6, gap = 0.6,
  kinds = {
    { name = "stop", weight = 5, least = 0.2, most = 1 },
    { name = "long stop", weight = 5, least = 1.3, most = 3 },
    { name = "kill", weight = 4, least = 0.1, most = 1 },
  },
}

function file.start(dir)
  local self = setmetatable({ dir = dir, locks = dir .. "/locks" },
    { __index = file })
  self.url = "file://" .. self.locks
  return self
end

function file:heal() end

-- The store sweeps once a minute at most: for this process two have passed.
local SWEEP = [[
  local dlock = require "dlock"
  local store = assert(dlock.open(arg[1]))
  for key in arg[2]:gmatch("%S+") do
    assert(assert(store:lock(key, { timeout = 5 })):release())
  end
  assert(store:close(5))
]]

--- What is left in the directory that is neither the store's own note nor
--- somebody else's.
function file:leftovers(keys)
  local later = clock.new(self.dir)
  later:step(120)
  local status, out, err = process.run { script = SWEEP, env = later.env,
    args = { self.url, table.concat(keys, " ") } }
  assert(status == 0, out .. err)
  local left, scan = {}, uv.fs_scandir(self.locks)
  while scan do
    local name = uv.fs_scandir_next(scan)
    if not name then
      break
    elseif name ~= "~store" then
      left[#left + 1] = name
    end
  end
  return left
end

function file:stop()
  server.remove_dir(self.locks)
end

return file
