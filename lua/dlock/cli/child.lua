-- Runs a command under a lease, and ends it when the lease is lost.
--
-- The child has its own process group (csrc/lua/child.c has the reasons), which
-- gets our signals, and SIGTERM at a loss. The lock is released when the child
-- is gone, with all_gone when its orphans are gone too:
--
--   RUNS     the child is there               attend
--     | it ended
--   LEFT     with all_gone: orphans of it     attend_left
--     | all of them ended
--   OVER
--
-- kill_at is set once, at the loss: the time of SIGKILL.
local core = require "dlock.core"
local out = require "dlock.cli.out"
local text = require "dlock.text"

local SIGKILL, SIGTERM, SIGCONT = 9, 15, 18
local SIGINT, SIGQUIT = 2, 3
local SIGTSTP, SIGTTIN, SIGTTOU = 20, 21, 22
local LOOK = 0.5 -- seconds between looks at the lease
local GRACE = 10 -- seconds from SIGTERM to SIGKILL
local OURS = 0 -- for core.pass_terminal

local child = {}

-- The child was stopped. Returns whether it is still to go on. If it wants the
-- terminal (SIGTTIN, SIGTTOU), it gets ours; in the background we stop too, as
-- any program would. At SIGTSTP we stop too. If the child's group had the
-- terminal, all of our group stops, as Ctrl-Z would have done; else the others
-- have their SIGTSTP already, or it came for us alone. After other stops the
-- process that sent them continues the child.
local function stopped(job, signal)
  local pid, wants = job.pid, signal == SIGTTIN or signal == SIGTTOU
  if wants and core.pass_terminal(OURS, pid) then
    return true
  elseif not wants and signal ~= SIGTSTP then
    return false
  end
  local _, had_it = core.pass_terminal(pid, OURS)
  core.suspend(signal, wants or had_it)
  if had_it then core.pass_terminal(OURS, pid) end
  return true
end

local function tell_wish(job)
  if not job.asked and job.lease:revoked() then
    job.asked = true
    out.complain(("somebody asks for %s"):format(job.shown))
  end
end

-- Signals all that a loss ends. The group of a reaped child may be another's.
local function end_all(job, signal)
  if not job.over then core.kill_group(job.pid, signal) end
  if job.all_gone then core.kill_adopted(signal, not job.over and job.pid) end
end

local function lost_now(job)
  if job.kill_at then
    if core.now() > job.kill_at then end_all(job, SIGKILL) end
    return false
  elseif job.lease:held() then
    return false
  end
  job.lease:wait_lost(0) -- calls on_lost
  out.complain(("lost: the lease on %s ended (%s); the command gets a SIGTERM")
    :format(job.shown, job.why))
  end_all(job, SIGTERM)
  job.kill_at = core.now() + GRACE
  return true
end

local function patience(job)
  return job.kill_at and LOOK
    or math.min(LOOK, math.max(job.lease:remaining(), 0.01))
end

-- Attends the child until it has ended; returns its status. A loss's SIGTERM
-- goes before SIGCONT, with which a stopped process receives it. Other signals
-- go after it, because SIGCONT would take back a Ctrl-Z.
local function attend(job)
  local pid = job.pid
  while true do
    local what, number = core.wait_child(pid, patience(job))
    if what == "ended" then
      return number
    end
    tell_wish(job)
    local go_on = what == "stopped" and stopped(job, number)
    if lost_now(job) or go_on then core.kill_group(pid, SIGCONT) end
    for signal in core.caught do core.kill_group(pid, signal) end
  end
end

-- Attends orphans until all are gone. New ones have not heard of a loss.
local function attend_left(job)
  job.over = true
  if job.kill_at then end_all(job, SIGTERM) end
  while core.wait_adopted(patience(job)) do
    tell_wish(job)
    if lost_now(job) then core.kill_adopted(SIGCONT) end
    for signal in core.caught do core.kill_adopted(signal) end
  end
end

-- The lock is lost, and processes of the ended child may still run.
local function end_group(job)
  while core.kill_group(job.pid, SIGCONT) do
    if core.now() > job.kill_at then
      core.kill_group(job.pid, SIGKILL)
      return
    end
    core.wait_child(job.pid, 0.02)
  end
end

-- A Ctrl-C of the terminal reached only the child's group: our script gets it
-- too.
local function take_terminal(pid, status)
  local _, had_it = core.pass_terminal(pid, OURS)
  if had_it and (status == 128 + SIGINT or status == 128 + SIGQUIT) then
    core.kill_own_group(status - 128)
  end
end

-- Puts keys and fences into the child's environment, one a line; DLOCK_HELD has
-- those of the jobs around it too. Returns the keys for messages.
local function tell_hold(lease)
  local keys, fences, shown = {}, {}, {}
  local held = { os.getenv("DLOCK_HELD") }
  for i, one in ipairs(type(lease) == "table" and lease.leases or { lease }) do
    keys[i], fences[i] = one.key, ("%.0f"):format(one.fence)
    shown[i] = text.quote(one.key)
    held[#held + 1] = text.to_word(one.key) .. "=" .. fences[i]
  end
  core.setenv("DLOCK_HELD", table.concat(held, " "))
  core.setenv("DLOCK_KEY", table.concat(keys, "\n"))
  core.setenv("DLOCK_FENCE", table.concat(fences, "\n"))
  return table.concat(shown, ", ")
end

--- Runs the command to its end. A status of nil means that it never ran.
---@return integer|nil status
---@return boolean|integer reported whether a loss was reported; without a
--- status, the one to exit with
function child.run(command, lease, all_gone)
  local shown = tell_hold(lease)
  if all_gone then core.adopt() end
  local pid, problem, no_status = core.spawn(command)
  if not pid then
    out.complain(("%s: %s"):format(command[1], problem))
    return nil, no_status
  end
  local job = { pid = pid, lease = lease, all_gone = all_gone,
    shown = shown, why = "its time is over" }
  lease:on_lost(function(_, reason) job.why = reason end)
  local status = attend(job)
  if job.kill_at and not all_gone then end_group(job) end
  take_terminal(pid, status)
  if all_gone then attend_left(job) end
  return status, job.kill_at ~= nil
end

return child
