-- Starts private server programs (redis-server, java) for tests: on a free
-- loopback port, in a directory of their own, with their output in a log, and
-- ready when this returns. Whatever started them can be gone before they are,
-- so a server is a pid and a directory, not a handle.

local files = require "spec.support.files"
local loop = require "spec.support.loop"
local uv = require "luv"

local server = {}
server.__index = server

-- Below the range that the kernel hands to outgoing connections: otherwise a
-- server that is stopped could find its port taken when it starts again. The
-- ports come in blocks, of which a process has its own: it listens on the first
-- port of each, for as long as it lives. So what one found free is given away
-- by no other, however late somebody listens there, or does so again.
local FIRST_PORT, BLOCK, BLOCKS = 10000, 500, 44

local function random()
  local a, b = uv.random(2):byte(1, 2)
  return a * 256 + b
end

-- A handle that listens there; nil if somebody else does.
local function listen(port)
  local tcp = uv.new_tcp()
  if tcp:bind("127.0.0.1", port) and tcp:listen(1, function() end) then
    return tcp
  end
  loop.close(tcp)
end

-- The ports of the last block that were not given yet, and what listens for the
-- blocks, by descriptor. In the registry: busted loads this anew for each file.
local registry = debug.getregistry()
local ports = registry["dlock ports"] or { next = 1, last = 0, kept = {} }
registry["dlock ports"] = ports

-- Has so many ports in a row, of a new block if need be.
local function reserve(count)
  if ports.last - ports.next + 1 >= count then
    return
  end
  local draw = random()
  for i = 1, BLOCKS do
    local first = FIRST_PORT + (draw + i) % BLOCKS * BLOCK
    local tcp = listen(first)
    if tcp then
      tcp:unref()
      ports.kept[tcp:fileno()] = tcp
      ports.next, ports.last = first + 1, first + BLOCK - 1
      return
    end
  end
  error("all blocks of ports are taken")
end

--- The descriptors by which this process has its ports: { [number] = … }.
server.port_fds = ports.kept

--- The first of so many ports of 127.0.0.1 in a row on which nobody listens
--- now; others each time.
function server.free_ports(count)
  for _ = 1, 1000 do
    reserve(count)
    local first, fine = ports.next, true
    for port = first, first + count - 1 do
      local tcp = listen(port)
      fine = fine and tcp
      loop.close(tcp)
    end
    ports.next = first + (fine and count or 1)
    if fine then
      return first
    end
  end
  error("no free port found on 127.0.0.1")
end

--- A port of 127.0.0.1 that nobody listens on now, another one each time.
function server.free_port()
  return server.free_ports(1)
end

--- A new directory that only we can read; inside the test run's own directory
--- when there is one (and not `apart`), so that it goes with that.
function server.new_dir(apart)
  local run = not apart and os.getenv("DLOCK_TEST_DIR")
  local base = run and uv.fs_stat(run) and run or os.getenv("TMPDIR") or "/tmp"
  -- A Unix socket's path may have 107 bytes.
  if #base > 60 then
    base = "/tmp"
  end
  return assert(uv.fs_mkdtemp(base .. "/dlock-test-XXXXXX"))
end

local ROOM = 2 ^ 31 -- bytes

--- Gives a test run's directory a part in memory, where there is room.
function server.add_memory(run)
  local is_there, space = pcall(uv.fs_statfs, "/dev/shm")
  if is_there and space and space.bavail * space.bsize >= ROOM then
    local memory = uv.fs_mkdtemp("/dev/shm/dlock-test-XXXXXX")
    if memory then
      assert(uv.fs_symlink(memory, run .. "/memory"))
    end
  end
end

--- A new directory for what a server syncs to its disk: in the run's memory
--- where it has some, because a busy disk takes seconds; it goes with the run.
--- Else `dir`.
function server.memory_dir(dir)
  local run = os.getenv("DLOCK_TEST_DIR")
  local memory = run and run .. "/memory"
  return memory and uv.fs_stat(memory)
    and assert(uv.fs_mkdtemp(memory .. "/dlock-test-XXXXXX")) or dir
end

--- Removes a run's directory.
function server.remove_run(run)
  local memory = uv.fs_readlink(run .. "/memory")
  server.remove_dir(run)
  if memory then
    server.remove_dir(memory)
  end
end

--- Removes a directory and all in it.
function server.remove_dir(dir)
  assert(dir:match("^/.*dlock%-test%-"), "not a directory of ours: " .. dir)
  local scan = uv.fs_scandir(dir)
  while scan do
    local name, kind = uv.fs_scandir_next(scan)
    if not name then
      break
    end
    local path = dir .. "/" .. name
    if kind == "directory" then
      server.remove_dir(path)
    else
      uv.fs_unlink(path)
    end
  end
  uv.fs_rmdir(dir)
end

--- "" if there is none.
function server.read_file(path)
  return files.read(path) or ""
end

function server.write_file(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  assert(file:close())
end

-- A process' or thread's state ("R", "S", "Z", …), and how many threads the
-- process has. Names in parentheses may have parentheses of their own.
local function state_of(pid)
  local stat = server.read_file("/proc/" .. pid .. "/stat")
  local state, rest = stat:match("^%d+ %(.*%) (%a)(.*)$")
  return state, rest and tonumber((rest:match("^" .. (" %-?%d+"):rep(16)
    .. " (%d+)")))
end

-- The states of its threads. Some may be left out while others end: the kernel
-- stops listing at one that ended meanwhile.
local function thread_states(pid)
  local dir, states = "/proc/" .. pid .. "/task", {}
  local scan = uv.fs_scandir(dir)
  while scan do
    local id = uv.fs_scandir_next(scan)
    if not id then
      break
    end
    states[#states + 1] = state_of(pid .. "/task/" .. id)
  end
  return states
end

--- True while process `pid` runs. A zombie does not, unless it has threads
--- left: those keep its sockets open.
function server.alive(pid)
  local state, threads = state_of(pid)
  if state == "Z" then
    return threads > 1
  end
  return state ~= nil and state ~= "X"
end

--- SIGSTOP to any process of ours, and waits until each thread has stopped.
function server.pause_pid(pid)
  uv.kill(pid, "sigstop")
  return loop.look(5, function()
    local states, _, threads = thread_states(pid), state_of(pid)
    return #states == (threads or 0)
      and not table.concat(states):find("[^TtZ]")
  end)
end

--- Puts pid on the list of what the end of the test run has to stop, should a
--- spec not.
function server.remember(pid)
  local dir = os.getenv("DLOCK_TEST_DIR")
  local file = dir and io.open(dir .. "/pids", "a")
  if file then
    file:write(pid, "\n")
    file:close()
  end
end

--- The command, which puts itself on that list before it runs: who starts it
--- may be ended before it could.
function server.listed(command)
  local dir = os.getenv("DLOCK_TEST_DIR")
  if not dir then
    return command
  end
  return { "sh", "-c", 'echo $$ >>"$0" && exec "$@"', dir .. "/pids",
    (table.unpack or unpack)(command) }
end

-- A log file changes when the server says something: that is the event.
local function watch(path)
  local event = uv.new_fs_event()
  event:start(path, {}, function() end)
  return event
end

--- Starts cmd (array: program, arguments) with its output in `log`.
--- ready(log text) says whether it serves; it is asked whenever the log grows.
--- Returns { pid =, log = } or nil, log text when it exited or was too slow.
function server.spawn(cmd, log, ready, timeout)
  local fd = assert(uv.fs_open(log, "w", 384)) -- 0600
  local exited, listed = false, server.listed(cmd)
  local child, pid = uv.spawn(listed[1], {
    args = { (table.unpack or unpack)(listed, 2) },
    stdio = { nil, fd, fd },
    detached = true,
  }, function()
    exited = true
  end)
  uv.fs_close(fd)
  if not child then
    error("cannot run " .. cmd[1] .. ": " .. tostring(pid))
  end
  child:unref() -- a failed case leaves it: it keeps no later case's loop alive
  local event = watch(log)
  -- Some become ready after their last line; then there is no event to see.
  local again = uv.new_timer()
  again:start(50, 50, function() end)
  local serves = loop.wait(timeout or 30, function()
    return exited or ready(server.read_file(log))
  end)
  loop.close(event)
  loop.close(again)
  local self = setmetatable({ pid = pid, log = log, child = child }, server)
  if exited or not serves then
    self:kill()
    return nil, server.read_file(log)
  end
  return self
end

--- Calls start(), which takes a free port and returns a server, or nil and a
--- log text; again, up to five times, when the port was taken in between.
function server.retry(start)
  local text
  for _ = 1, 5 do
    local self
    self, text = start()
    if self then
      return self
    end
    if not text:lower():match("address already in use") then
      break
    end
  end
  error("server did not start:\n" .. tostring(text), 2)
end

function server:signal(name)
  return uv.kill(self.pid, name)
end

local function wait_end(self, timeout)
  local gone = loop.look(timeout, function()
    return not server.alive(self.pid)
  end)
  if gone then
    loop.close(self.child)
    self.child = nil
  end
  return gone
end

--- SIGKILL, and waits until it is gone.
function server:kill()
  self:signal("sigkill")
  return wait_end(self, 10)
end

--- SIGTERM, then SIGKILL after 5 s; waits until it is gone.
function server:terminate()
  self:signal("sigcont")
  self:signal("sigterm")
  return wait_end(self, 5) or self:kill()
end

--- SIGSTOP and SIGCONT: a server that hangs.
function server:pause()
  return server.pause_pid(self.pid)
end

function server:resume()
  return self:signal("sigcont")
end

return server
