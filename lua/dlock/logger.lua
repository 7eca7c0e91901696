-- A ready-made on_event: each event as a line of JSON, into a file, or into
-- nginx's error log with the level that the event deserves. A message names
-- stores without secrets, so the line has none. A file that cannot be written
-- to raises no error, and a pipe that nobody reads no SIGPIPE.
local core = require "dlock.core"
local json = require "dlock.json"
local misuse = require "dlock.misuse"

local logger = {}

local ngx = rawget(_G, "ngx")

-- What ends or endangers a lock is an error; what an admin should look at is a
-- warning. All others tell what happens in a fleet that is well.
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

-- nginx cuts what it logs at 2048 bytes, of which its own words before ours
-- take some 200. A line that is longer than what is left has a key and a
-- message of at most CUT bytes each: so both say something, and it is JSON.
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
      file:write(line) -- one write: other processes write there too
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

--- An on_event function that writes into the file; without one into nginx's
--- error log, elsewhere to standard error. Raises for what is no open file.
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
