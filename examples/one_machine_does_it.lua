-- A job that every machine starts at the same hour (cron), and that one of them
-- does. Their clocks strike apart, so the key stays closed for the period: a
-- machine that comes late, when the job is done, finds that it was done. A job
-- that fails opens the period again.
--
--   lua examples/one_machine_does_it.lua [URL [SECONDS]]

local dlock = require "dlock"

local store = assert(arg[1] and dlock.open(arg[1]) or dlock.open())

-- A little less than the time between two runs: 20 hours for a nightly job.
local period = tonumber(arg[2]) or 20 * 3600

local function job()
  print "making the nightly report"
end

local done, message, code = store:once_per("nightly-report", period, job)
if code == "busy" then
  print "another machine made it, or makes it"
elseif not done then
  -- The store is down, or the lock was lost while we were at it.
  io.stderr:write(message, "\n")
  os.exit(75)
end
store:close()
