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
  session = "error", denied = "error", suspicious = "warn" }

local function line_of(event, level, most)
  return json.encode({ time = os.date("!%Y-%m-%dT%H:%M:%SZ"), level = level,
    kind = event.kind, message = event.message, key = event.key,
    pid = core.pid() }, most)
end

-- nginx cuts an entry at 2048 bytes, with some 200 of its own. Of a longer line
-- key and message are cut to CUT bytes each, so it stays JSON.
local LONGEST, CUT = 1800, 800

local function line_for_nginx(event, level)
  local line = line_of(event, level)
  return #line <= LONGEST and line or line_of(event, level, CUT)
end

local function to_nginx()
  local of = { error = ngx.ERR, warn = ngx.WARN, info = ngx.INFO }
  return function(event)
    local level = LEVELS[event.kind] or "info"
    ngx.log(of[level], "dlock: ", line_for_nginx(event, level))
  end
end

local function to_file(file)
  return function(event)
    local line = line_of(event, LEVELS[event.kind] or "info") .. "\n"
    core.write(function()
      file:write(line) -- one write, as other processes write there too
      file:flush()
    end)
  end
end

local function of_events(write)
  return function(event)
    if type(event) ~= "table" then
      misuse.raise("dlock.logger's function takes an event, not a %s",
        type(event))
    end
    write(event)
  end
end

--- Raises unless the file is open.
function logger.new(file)
  if file == nil and ngx and ngx.log and ngx.get_phase then
    return of_events(to_nginx())
  end
  file = file == nil and io.stderr or file
  if not io.type(file) then
    misuse.raise("dlock.logger takes an open file, such as io.stderr, not a"
      .. " %s", type(file))
  elseif io.type(file) == "closed file" then
    misuse.raise "dlock.logger takes an open file; this one is closed"
  end
  return of_events(to_file(file))
end

return logger
