-- Acquires in a process of its own and says so; releases when told.
--
--   local p = locker(url, "k", { ttl = 10 })
--   p:write("lock\n"); p:expect("^got")
--   p:write("release\n"); p:expect("^released$")

local process = require "spec.support.process"

local SCRIPT = [[
  local dlock = require "dlock"
  local url, key, ttl, io_timeout = arg[1], arg[2], tonumber(arg[3]),
    tonumber(arg[4])
  local store = assert(dlock.open { url = url, io_timeout = io_timeout })
  local current
  print("ready")
  for line in io.lines() do
    if line == "lock" then
      local lease, message = store:lock(key, { ttl = ttl, timeout = 20 })
      if lease then current = lease end
      print(lease and ("got %.0f"):format(lease.fence) or message)
    elseif line == "release" then
      print(current:release() and "released" or "not released")
    end
  end
]]

--- A process that is ready. opts: ttl, and io_timeout where that is not the
--- default, in seconds.
return function(url, key, opts)
  local p = process.spawn { script = SCRIPT,
    args = { url, key, opts.ttl, opts.io_timeout } }
  p:expect("^ready$")
  return p
end
