-- Takes a lock again and again, and shows what happens around it. Lose the
-- primary meanwhile, and see that the loop goes on.
-- usage: lua5.4 examples/sentinel/loop.lua URL [TIMES]
local dlock = require "dlock"

local url, times = assert(arg[1], "a URL"), tonumber(arg[2] or 100)
local store = assert(dlock.open { url = url, on_event = function(event)
  print(event.kind, event.message)
end })
for i = 1, times do
  local lease, message = store:lock("job", { timeout = 30 })
  if lease then
    print(i, "locked, fence " .. lease.fence)
    os.execute "sleep 0.5"
    print(i, lease:release())
  else
    print(i, message)
  end
end
store:close()
