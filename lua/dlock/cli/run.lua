-- `dlock run`: a program under a lock.
--
-- The lock is taken and given back by the lockable's own `with`, so what counts
-- as lost, at the release too, is its rule. While the child runs, this looks
-- after it and after the lease, which the renewal thread renews. The child has
-- a process group of its own (csrc/lua/child.c says why): signals that came
-- for us go to that group, and all of it gets a SIGTERM when the lease is
-- lost. Otherwise the child decides: the lock is released when it is gone,
-- whatever it left running.
local complain = require "dlock.cli.complain"
local core = require "dlock.core"
local text = require "dlock.text"

local LOST = 70 -- the exit status
local SIGKILL, SIGTERM, SIGCONT = 9, 15, 18
local SIGINT, SIGQUIT = 2, 3
local SIGTSTP, SIGTTIN, SIGTTOU = 20, 21, 22
local LOOK = 0.5 -- seconds between two looks at the lease
local GRACE = 10 -- seconds from SIGTERM to SIGKILL
local OURS = 0 -- our own process group, for core.pass_terminal

-- The child was stopped. By the terminal, because it is not its own yet: it
-- gets it, if it is ours. By Ctrl-Z: we stop as well. We also do if we are in
-- the background ourselves, as any program would that wants the terminal. What
-- the terminal did to the child's group only, it would have done to ours, and
-- so all of that stops. Otherwise SIGTSTP came for our group, and the others
-- have it already, or for us alone.
-- A process that stopped the child in another way lets it go on by itself.
-- Returns whether the child is to go on now.
local function stopped(pid, signal)
  local wants = signal == SIGTTIN or signal == SIGTTOU
  if wants and core.pass_terminal(OURS, pid) then
    return true
  elseif not wants and signal ~= SIGTSTP then
    return false
  end
  local _, had_it = core.pass_terminal(pid, OURS)
  core.suspend(signal, wants or had_it)
  if had_it then
    core.pass_terminal(OURS, pid)
  end
  return true
end

-- Reports that the lock was revoked; the command decides what to do.
local function asks(lease)
  local asked = lease:revoked()
  if asked then
    complain(("somebody asks for %s"):format(text.quote(lease.key)))
  end
  return asked
end

-- The lease was lost: ends the group. Returns when it is to be killed.
local function terminate(pid, lease)
  complain(("lost: the lease on %s ended; the command gets a SIGTERM")
    :format(text.quote(lease.key)))
  core.kill_group(pid, SIGTERM)
  return core.now() + GRACE
end

-- Looks after the child and its lease until it has ended. Returns its status
-- and, when the lease was lost, at what time its group is to be killed.
--
-- When the lease was lost while all of us were stopped, SIGTERM is sent before
-- the child goes on; a stopped process has to go on to receive it. Other
-- signals are passed on after that, because SIGCONT would take back a Ctrl-Z.
local function attend(pid, lease)
  local kill_at, asked
  while true do
    local patience = kill_at and LOOK or math.max(lease:remaining(), 0.01)
    local what, number = core.wait_child(pid, math.min(LOOK, patience))
    if what == "ended" then
      return number, kill_at
    end
    asked = asked or asks(lease)
    local go_on = what == "stopped" and stopped(pid, number)
    if not kill_at and not lease:held() then
      kill_at, go_on = terminate(pid, lease), true
    elseif kill_at and core.now() > kill_at then
      core.kill_group(pid, SIGKILL)
    end
    if go_on then core.kill_group(pid, SIGCONT) end
    for signal in core.caught do core.kill_group(pid, signal) end
  end
end

-- The child is gone, but the lock is lost and what it started may still run.
local function end_group(pid, kill_at)
  while core.kill_group(pid, SIGCONT) do
    if core.now() > kill_at then
      core.kill_group(pid, SIGKILL)
      return
    end
    core.wait_child(pid, 0.02)
  end
end

-- When the child's group had the terminal, a Ctrl-C that ended the child went
-- to that group alone: the script that we are part of gets it too.
local function take_terminal(pid, status)
  local _, had_it = core.pass_terminal(pid, OURS)
  if had_it and (status == 128 + SIGINT or status == 128 + SIGQUIT) then
    core.kill_own_group(status - 128)
  end
end

-- Runs the command; returns its status, and true when a loss was reported.
local function execute(command, lease)
  core.setenv("DLOCK_KEY", lease.key)
  core.setenv("DLOCK_FENCE", ("%.0f"):format(lease.fence))
  local pid, problem, no_status = core.spawn(command)
  if not pid then
    complain(("%s: %s"):format(command[1], problem))
    return no_status
  end
  local status, kill_at = attend(pid, lease)
  if kill_at then
    end_group(pid, kill_at)
  end
  take_terminal(pid, status)
  return status, kill_at ~= nil
end

-- The lockable that the options ask for, or nil, message, code.
local function choose(store, key, options)
  if options["--shared"] then
    local rw, message, code = store:rwlock(key)
    if not rw then return nil, message, code end
    return rw:read()
  elseif options["--permits"] then
    return store:semaphore(key, options["--permits"].of)
  end
  return store:mutex(key)
end

--- Runs it. A signal ends the wait for the lock by an error, until `waited` is
--- called, which returns one that came before.
---@param store dlock.store
---@param request table as args.read returns it
---@param waited fun(): integer|nil
---@return integer|nil status
---@return string? message
---@return string? code
return function(store, request, waited)
  local options = request.options
  local lockable, message, code = choose(store, request.words[1], options)
  if not lockable then return nil, message, code end
  local done, status, reported
  local permits = options["--permits"]
  done, message, code = lockable:with({
    ttl = options["--ttl"],
    timeout = options["-n"] and 0 or options["--timeout"],
    permits = permits and permits.permits,
  }, function(lease)
    local signal = waited()
    status, reported = signal and 128 + signal, false
    if not signal then
      status, reported = execute(request.command, lease)
    end
  end)
  if done then
    return status
  elseif code ~= "lost" then
    return nil, message, code
  elseif not reported then
    complain(message)
  end
  return LOST
end
