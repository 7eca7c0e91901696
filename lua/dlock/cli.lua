-- The command `dlock`: run a program under a lock, and look after locks.
--
-- `run` waits for its child on a descriptor, so the end of the child is seen at
-- once; that the lease is still held it looks at twice a second, while the
-- keeper thread renews it. Signals that end a program are passed on to the
-- child: it decides, and the lock is released when it is gone.
local core = require "dlock.core"
local dlock = require "dlock"
local text = require "dlock.text"

local USAGE = [[
usage: dlock [--url URL] run [--ttl S] [--timeout S] [--shared]
             [--permits N/M] KEY -- COMMAND [ARG...]
       dlock [--url URL] ls [PREFIX] | show KEY | break KEY | ping | watch KEY
Without --url the store is $DLOCK_URL, or the files of this user.
run ends with the command's own status; 75: the lock was not to be had,
69: the store is unavailable, 70: the lock was lost while the command ran.]]

local EX_USAGE, EX_UNAVAILABLE, EX_LOST, EX_BUSY = 64, 69, 70, 75
local SIGTERM, SIGKILL = 15, 9
local LOOK = 0.5 -- seconds between two looks at the lease
local GRACE = 10 -- seconds from SIGTERM to SIGKILL
local CODES = { busy = EX_BUSY, timeout = EX_BUSY, cancelled = EX_BUSY,
  invalid = EX_USAGE, unsupported = EX_USAGE }

local function complain(message)
  io.stderr:write("dlock: ", tostring(message), "\n")
end

local function failed(message, code)
  complain(message)
  return CODES[code] or EX_UNAVAILABLE
end

local function usage(problem)
  complain(problem)
  io.stderr:write(USAGE, "\n")
  return EX_USAGE
end

-- Takes leading options off a list of arguments: those with a value, and
-- flags. Returns them and the rest, or nil and what is wrong.
local function options(args, from, valued, flags)
  local found, i = {}, from
  while args[i] and args[i]:sub(1, 2) == "--" and args[i] ~= "--" do
    local name = args[i]:sub(3)
    if flags[name] then
      found[name] = true
    elseif valued[name] then
      i = i + 1
      found[name] = args[i]
      if not args[i] then return nil, ("--%s needs a value"):format(name) end
    else
      return nil, ("unknown option --%s"):format(name)
    end
    i = i + 1
  end
  return found, i
end

local function number(opts, name)
  local value = opts[name] and tonumber(opts[name])
  if opts[name] and not value then
    return nil, ("--%s takes seconds, not '%s'"):format(name, opts[name])
  end
  return value
end

-- The lockable that run's options ask for, or nil, message, code.
local function choose(store, key, opts)
  if opts.shared then
    local rw, message, code = store:rwlock(key)
    if not rw then return nil, message, code end
    return rw:read()
  elseif opts.permits then
    local n, m = opts.permits:match("^(%d+)/(%d+)$")
    if not n then
      return nil, "invalid: --permits takes N/M, as in 1/3", "invalid"
    end
    local semaphore, message, code = store:semaphore(key, tonumber(m))
    return semaphore, message or { permits = tonumber(n) }, code
  end
  return store:mutex(key)
end

-- Waits for the child; ends it when the lease is lost.
local function attend(pid, lease)
  local ask_until
  while true do
    local status = core.wait_child(pid, LOOK)
    if status then
      return ask_until and EX_LOST or status
    end
    local signal = core.caught()
    if signal then core.kill(pid, signal) end
    if ask_until then
      if core.now() > ask_until then core.kill(pid, SIGKILL) end
    elseif not lease:held() then
      complain(("lost: the lease on %s ended; the command is told to end")
        :format(text.quote(lease.key)))
      ask_until = core.now() + GRACE
      core.kill(pid, SIGTERM)
    end
  end
end

local function run(store, args, from)
  local opts, i = options(args, from,
    { ttl = true, timeout = true, permits = true }, { shared = true })
  if not opts then return usage(i) end
  local key = args[i]
  if not key or args[i + 1] ~= "--" or not args[i + 2] then
    return usage("run takes KEY -- COMMAND")
  end
  local ask = {}
  for _, name in ipairs { "ttl", "timeout" } do
    local value, problem = number(opts, name)
    if problem then return usage(problem) end
    ask[name] = value
  end
  local lockable, extra, code = choose(store, key, opts)
  if not lockable then return failed(extra, code) end
  ask.permits = type(extra) == "table" and extra.permits or nil
  local lease, message
  lease, message, code = lockable:acquire(ask)
  if not lease then return failed(message, code) end
  core.child_signals()
  core.setenv("DLOCK_KEY", key)
  core.setenv("DLOCK_FENCE", ("%.0f"):format(lease.fence))
  local command = {}
  for n = i + 2, #args do command[#command + 1] = args[n] end
  local pid
  pid, message = core.spawn(command)
  if not pid then
    lease:release()
    complain(("%s: %s"):format(command[1], message))
    return 127
  end
  local status = attend(pid, lease)
  if status ~= EX_LOST then lease:release() end
  return status
end

local function seconds(value)
  return value and ("%.1f s"):format(value) or "-"
end

local function holder_line(h)
  return ("held by %s, fence %s, ends in %s"):format(h.owner or "?",
    h.fence and ("%.0f"):format(h.fence) or "?", seconds(h.ttl))
end

local function waiter_line(i, w)
  return ("waiting %d: %s, %s, for %s"):format(i, w.owner or "?",
    w.mode or "?", seconds(w.waited))
end

local function show(store, args, from)
  if not args[from] then return usage("show takes KEY") end
  local found, message, code = store:inspect(args[from])
  if message then return failed(message, code) end
  if not found then
    print("free")
    return 0
  end
  print(("%s%s"):format(found.mode or "free",
    found.permits and (", %.0f permits"):format(found.permits) or ""))
  for _, h in ipairs(found.holders) do print(holder_line(h)) end
  for i, w in ipairs(found.waiters) do print(waiter_line(i, w)) end
  return 0
end

local function ls(store, args, from)
  local cursor
  repeat
    local keys, message, code = store:list(args[from] or "",
      { cursor = cursor })
    if not keys then return failed(message, code) end
    cursor = message
    for _, key in ipairs(keys) do print(key) end
  until not cursor
  return 0
end

local function break_lock(store, args, from)
  if not args[from] then return usage("break takes KEY") end
  local ok, message, code = store:break_lock(args[from])
  return ok and 0 or failed(message, code)
end

local function ping(store)
  local trip, message, code = store:ping()
  if not trip then return failed(message, code) end
  print(("%.3f ms"):format(trip * 1000))
  return 0
end

-- One line for each holder, as they change, until a signal comes.
local function watch(store, args, from)
  if not args[from] then return usage("watch takes KEY") end
  local election, message, code = store:election(args[from])
  if not election then return failed(message, code) end
  core.child_signals()
  local stop
  while not stop do
    local leader
    leader, message, code = election:leader()
    if message then return failed(message, code) end
    print(leader and ("held by %s, fence %.0f"):format(leader.owner or "?",
      leader.fence or 0) or "free")
    io.stdout:flush()
    local changed
    repeat
      changed, message, code = election:wait_change(LOOK)
      stop = core.caught()
    until changed or code ~= "timeout" or stop
    if not changed and code ~= "timeout" then return failed(message, code) end
  end
  return 0
end

local COMMANDS = { run = run, ls = ls, show = show, ["break"] = break_lock,
  ping = ping, watch = watch }

--- Runs the command and returns its exit status.
---@param args string[]
---@return integer
return function(args)
  local opts, i = options(args, 1, { url = true }, { help = true,
    version = true })
  if not opts then return usage(i) end
  if opts.help then
    print(USAGE)
    return 0
  elseif opts.version then
    print("dlock " .. dlock.VERSION)
    return 0
  end
  local command = COMMANDS[args[i] or ""]
  if not command then
    return usage(args[i] and ("unknown command '%s'"):format(args[i])
      or "a command is expected")
  end
  local store, message, code = dlock.open(opts.url)
  if not store then return failed(message, code) end
  local status = command(store, args, i + 1)
  store:close(1)
  return status
end
