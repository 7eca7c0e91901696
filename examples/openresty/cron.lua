-- A cron job on one worker of a fleet: every worker has the timer, and the
-- first one does the job. The others find it done for most of the interval,
-- even when it took no time and their clocks differ a little.
local store = require "locks"

local cron = {}

local INTERVAL = 1 -- seconds; in production an hour

local function job()
  ngx.shared.cache:incr("jobs", 1, 0)
end

local function tick(exiting)
  if exiting then
    return
  end
  local done, message, code =
    store:once_per("cron:report", 0.8 * INTERVAL, job)
  if not done and code ~= "busy" then
    ngx.log(ngx.ERR, message)
  end
end

function cron.start()
  assert(ngx.timer.every(INTERVAL, tick))
end

function cron.show()
  ngx.say(ngx.shared.cache:get("jobs") or 0)
end

return cron
