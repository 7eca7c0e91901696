-- An on_event that writes events as lines of JSON, to a file or to nginx's
-- error log. Messages have no secrets. A failed write raises neither an error
-- nor SIGPIPE.
local core = require "dlock.core"
local json = require "dlock.json"
local misuse = require "dlock.misuse"

local logger = {}

local ngx = rawget(_G, "ngx")

-- An error ends or endangers a lock; an admin should look at a warning. Other
-- events are normal.
local LEVELS = { lost = "error", callback = "error", dropped = "error",
  damaged = "error",
  insecure = "warn", eviction = "warn", clock = "warn", replicas = "warn",
  sentinel = "warn", degraded = "warn", failover = "warn", disconnect = "warn",
  session = "error", denied = "error", suspicious = "warn",
  unheard = "warn", loose = "warn" }

local function line_of(event, level, most)
  return json.encode({ time = os.date("!%Y-%m-%dT%H:%M:%SZ"), level = level,
    kind = event.kind, message = event.message, key = event.key,
    pid = core.pid() }, most)
end

-- nginx cuts an entry at 2048 bytes, with some 200 of its own. Of a longer line
-- key and message are cut to CUT bytes each, so it stays JSON.
local LONGEST, CUT = 1800, 800

--- Raises unless the file is open.
function logger.new(file)
  local write
  if file == nil and ngx and ngx.log and ngx.get_phase then
    local of = { error = ngx.ERR, warn = ngx.WARN, info = ngx.INFO }
    write = function(event, level)
      local line = line_of(event, level)
      ngx.log(of[level], "dlock: ",
        #line <= LONGEST and line or line_of(event, level, CUT))
    end
  else
    file = file == nil and io.stderr or file
    if not io.type(file) then
      misuse.raise("dlock.logger takes an open file, such as io.stderr, not a"
        .. " %s", type(file))
    elseif io.type(file) == "closed file" then
      misuse.raise "dlock.logger takes an open file; this one is closed"
    end
    write = function(event, level)
      local line = line_of(event, level) .. "\n"
      core.write(function()
        file:write(line) -- one write, as other processes write there too
        file:flush()
      end)
    end
  end
  return function(event)
    if type(event) ~= "table" then
      misuse.raise("dlock.logger's function takes an event, not a %s",
        type(event))
    end
    write(event, LEVELS[event.kind] or "info")
  end
end

return logger
