-- Work that takes long, in steps. It stops by itself when the lock is lost, and
-- the lock is lost by itself when the program hangs.
--
--   lua examples/long_import.lua [URL]

local dlock = require "dlock"

local store = assert(arg[1] and dlock.open(arg[1]) or dlock.open())

local lease, message = store:lock("import", {
  timeout = 10,   -- wait so long for the one before us
  ttl = 15,       -- if this machine dies, the next may begin after 15 s
  max_hold = 600, -- if this program hangs, after 10 minutes
})
if not lease then
  io.stderr:write(message, "\n")
  os.exit(1)
end

for step = 1, 5 do
  if not lease:held() then
    io.stderr:write("the lock is lost, stopping before step ", step, "\n")
    os.exit(1)
  end
  print(("step %d of 5, fence %d"):format(step, lease.fence))
end

assert(lease:release())
store:close()
