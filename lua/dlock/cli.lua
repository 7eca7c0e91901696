-- The command `dlock`: run a program under a lock (dlock.cli.run), and look
-- after locks. What the command line may hold stands in dlock.cli.args.
--
-- A signal ends every wait: its handler notes it, and a debug hook looks for
-- the note whenever Lua code runs, which is five times a second while dlock
-- waits. The hook then raises an error, which ends the wait as Lua's own
-- handler of Ctrl-C would.
local args = require "dlock.cli.args"
local complain = require "dlock.cli.complain"
local core = require "dlock.core"
local dlock = require "dlock"
local json = require "dlock.json"
local run = require "dlock.cli.run"
local text = require "dlock.text"

local USAGE = [[
usage: dlock [OPTION...] run [--] KEY -- COMMAND [ARG...]
       dlock [OPTION...] ls [PREFIX] | show KEY | break KEY | revoke KEY
                         | watch KEY | stats [PREFIX] | ping
Options stand before or after these words; --option=VALUE is the same.
  --url URL            the store; else $DLOCK_URL, else this user's files
  --prefix PREFIX      what the store puts before each key
  --password-file FILE its first line is the password
  --json               ls, show, watch, stats, ping: print JSON
  -h, --help           this text        --version   the version
Options of run:
  --ttl SECONDS        how long the lock outlives a killed dlock (30)
  --timeout SECONDS    how long to wait for the lock, or inf (5)
  -n                   do not wait, the same as --timeout 0
  -E STATUS            the exit status instead of 75
  --shared             one of many readers
  --permits N/M        N of the M permits of a semaphore
run ends with the command's own status (127: not found, 126: it cannot be run);
75: the lock could not be acquired, 70: it was lost while the command ran, 69:
the store is unavailable, 77: it refused us, 64: this was called wrongly,
130: Ctrl-C while it waited (128 + the signal's number, whichever ended it).
74: what any of these prints cannot be written.]]

local EX_USAGE, EX_UNAVAILABLE, EX_BUSY, EX_DENIED = 64, 69, 75, 77
local EX_IOERR = 74
local CODES = { busy = EX_BUSY, timeout = EX_BUSY, cancelled = EX_BUSY,
  invalid = EX_USAGE, unsupported = EX_USAGE, denied = EX_DENIED }
local STEPS = 10 -- of Lua's machine between two looks at the signals

local unwritten -- why what was printed could not be written

-- Prints a line.
local function say(line)
  local ok, why = io.stdout:write(line, "\n")
  unwritten = unwritten or not ok and why
end

-- Whether all that was printed is written.
local function flushed()
  local ok, why = io.stdout:flush()
  unwritten = unwritten or not ok and why
  return not unwritten
end

-- The exit status instead of this one if something could not be written.
local function finish(status)
  if flushed() then return status end
  complain("the output cannot be written: " .. tostring(unwritten))
  return status == 0 and EX_IOERR or status
end

local function failed(message, code, busy)
  complain(tostring(message))
  local status = CODES[code] or EX_UNAVAILABLE
  return status == EX_BUSY and busy or status
end

-- What a server or another program gave, in one line of a terminal.
local function plain(value)
  return text.escape(value or "?")
end

local function seconds(value)
  return value and text.tenths(value) .. " s" or "-"
end

local function fence(holder)
  return not holder.fence and "?"
    or ("%s%.0f"):format(holder.fence_at_most and "at most " or "",
      holder.fence)
end

local function print_found(found)
  say(("%s%s"):format(found.mode or "free",
    found.permits and (", %.0f permits"):format(found.permits) or ""))
  for _, h in ipairs(found.holders) do
    say(("held by %s, fence %s, ends in %s"):format(plain(h.owner),
      fence(h), seconds(h.ttl)))
  end
  for i, w in ipairs(found.waiters) do
    say(("waiting %d: %s, %s, for %s"):format(i, plain(w.owner),
      w.mode or "?", seconds(w.waited)))
  end
end

local verbs = {}

function verbs.run(store, request, waited)
  local status, message, code = run(store, request, waited)
  return status or failed(message, code, request.options["-E"])
end

function verbs.show(store, request)
  local key = request.words[1]
  local found, message, code = store:inspect(key)
  if message then return failed(message, code) end
  if request.options["--json"] then
    say(json.encode(found or { key = key, holders = {}, waiters = {} }))
  elseif found then
    print_found(found)
  else
    say("free")
  end
  return 0
end

-- Calls visit(key) for each key that begins so; it may return message, code.
local function each_key(store, prefix, visit)
  local cursor, keys, message, code
  repeat
    keys, message, code = store:list(prefix or "", { cursor = cursor })
    if not keys then return message, code end
    cursor = message
    for _, key in ipairs(keys) do
      message, code = visit(key)
      if message then return message, code end
    end
  until not cursor
end

function verbs.ls(store, request)
  local found = {}
  local message, code = each_key(store, request.words[1], function(key)
    if request.options["--json"] then
      found[#found + 1] = key
    else
      say(plain(key))
    end
  end)
  if message then return failed(message, code) end
  if request.options["--json"] then say(json.encode(found)) end
  return 0
end

function verbs.stats(store, request)
  local count = { keys = 0, holders = 0, waiters = 0 }
  local message, code = each_key(store, request.words[1], function(key)
    local found, message, code = store:inspect(key)
    if message then return message, code end
    if found then
      count.keys = count.keys + 1
      count.holders = count.holders + #found.holders
      count.waiters = count.waiters + #found.waiters
    end
  end)
  if message then return failed(message, code) end
  say(request.options["--json"] and json.encode(count)
    or ("%d keys, %d holders, %d waiters"):format(count.keys, count.holders,
      count.waiters))
  return 0
end

verbs["break"] = function(store, request)
  local ok, message, code = store:break_lock(request.words[1])
  return ok and 0 or failed(message, code)
end

function verbs.revoke(store, request)
  local ok, message, code = store:revoke(request.words[1])
  return ok and 0 or failed(message, code)
end

function verbs.ping(store, request)
  local trip, message, code = store:ping()
  if not trip then return failed(message, code) end
  say(request.options["--json"] and json.encode { round_trip = trip }
    or ("%.3f ms"):format(trip * 1000))
  return 0
end

-- One line for each holder, as they change, until a signal comes.
function verbs.watch(store, request)
  local key = request.words[1]
  local election, message, code = store:election(key)
  if not election then return failed(message, code) end
  while true do
    local leader
    leader, message, code = election:leader()
    if message then return failed(message, code) end
    if request.options["--json"] then
      say(json.encode { key = key, holder = leader })
    else
      say(leader and ("held by %s, fence %s"):format(plain(leader.owner),
        fence(leader)) or "free")
    end
    if not flushed() then return EX_IOERR end
    local changed
    changed, message, code = election:wait_change()
    if not changed then return failed(message, code) end
  end
end

-- Calls the verb with the store, the request and waited; a signal ends it until
-- it calls waited(). Returns what it returned, or nil and the signal.
local function until_signal(store, request)
  local interrupt, signal = {}, nil
  local function look()
    signal = core.caught()
    if signal then
      debug.sethook()
      error(interrupt, 0)
    end
  end
  local function waited()
    debug.sethook()
    return core.caught()
  end
  core.catch_signals(request.verb == "run")
  local ok, result = pcall(function()
    debug.sethook(look, "", STEPS)
    return verbs[request.verb](store, request, waited)
  end)
  debug.sethook()
  if not ok and result ~= interrupt then
    error(result, 0)
  end
  return ok and result, signal
end

local function serve(request)
  local options = request.options
  local store, message, code = dlock.open { url = options["--url"],
    prefix = options["--prefix"], password_file = options["--password-file"] }
  if not store then return failed(message, code) end
  local status, signal = until_signal(store, request)
  if not status then -- a signal is how a watch is meant to end
    status = request.verb == "watch" and 0 or 128 + signal
  end
  store:close(1)
  return finish(status)
end

--- Runs the command and returns its exit status.
---@param list string[]
---@return integer
return function(list)
  local request, problem = args.read(list)
  if not request then
    complain(problem)
    io.stderr:write("dlock --help lists what there is\n")
    return EX_USAGE
  elseif request.help then
    say(USAGE)
    return finish(0)
  elseif request.version then
    say("dlock " .. dlock.VERSION)
    return finish(0)
  end
  return serve(request)
end
