-- A job that every machine starts at the same minute (cron), and that only one
-- of them should do. The others find the lock held and end.
--
--   lua examples/one_machine_does_it.lua [URL]

local dlock = require "dlock"

local store = assert(arg[1] and dlock.open(arg[1]) or dlock.open())

local function job()
  print "making the nightly report"
end

-- timeout = 0: the second machine does not wait for the first to end.
local done, message, code = store:with("nightly-report", { timeout = 0 }, job)
if not done and code == "busy" then
  print "another machine makes it"
elseif not done then
  -- The store is down, or the lock was lost while we were at it.
  io.stderr:write(message, "\n")
  os.exit(75)
end
store:close()
