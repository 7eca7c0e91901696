-- Runs Lua scripts in processes of their own, with the interpreter and module
-- paths of the running test: locks are about processes, and only a process can
-- be killed or stopped. All calls block, each with a deadline.
--
--   local p = process.spawn { script = "print(io.read())" }
--   p:write("hello\n"); p:read_line() --> "hello"; p:wait() --> 0

local uv = require "luv"
local loop = require "spec.support.loop"
local server = require "spec.support.server"

local process = {}
process.__index = process

local DEFAULT_TIMEOUT = 20 * loop.patience
local live = {}

--- The running interpreter's own path, and how a shell runs it: with a
--- sanitizer's runtime if it is under test, which is not for the shell.
process.lua = uv.exepath()
process.lua_in_shell = 'env ${DLOCK_TEST_RUNTIME:+"LD_PRELOAD='
  .. '$DLOCK_TEST_RUNTIME"} ' .. process.lua

local function reader(self, pipe, name)
  self[name] = ""
  pipe:read_start(function(err, data)
    if data then
      self[name] = self[name] .. data
    else
      self[name .. "_ended"] = err or true
    end
  end)
end

-- `lua -e` has no arguments of its own, so the script starts with a table.
local function script_args(opts)
  local quoted = {}
  for i, value in ipairs(opts.args or {}) do
    quoted[i] = ("%q"):format(tostring(value))
  end
  return {
    "-e",
    "arg={" .. table.concat(quoted, ",") .. "} "
      .. 'io.stdout:setvbuf("line") ' .. opts.script,
  }
end

local function file_args(opts)
  local args = { opts.file }
  for i, value in ipairs(opts.args or {}) do
    args[i + 1] = tostring(value)
  end
  return args
end

local function command_line(opts)
  if opts.command then
    return opts.command[1], { (table.unpack or unpack)(opts.command, 2) }
  end
  return process.lua, opts.script and script_args(opts) or file_args(opts)
end

-- With a sanitizer's runtime if it is under test (spec/c/runtime.c).
local function environment(opts)
  local env, tested = {}, opts.tested
  if tested == nil then
    tested = not opts.command
  end
  env.LD_PRELOAD = tested and os.getenv("DLOCK_TEST_RUNTIME") or nil
  for name, value in pairs(opts.env or {}) do
    env[name] = value
  end
  return loop.environment(env)
end

--- Starts a process. opts: script (Lua text) or file (path) or command (array,
--- any program); args (array, the script's `arg`), env ({NAME = value|false}),
--- cwd, stderr ("inherit", or "pipe": collected in p.err), tested (whether our
--- libraries run in it that are under test; default: not in a command).
function process.spawn(opts)
  local program, args = command_line(opts)
  local stdin, stdout = uv.new_pipe(false), uv.new_pipe(false)
  local stderr = opts.stderr == "pipe" and uv.new_pipe(false) or nil
  local self = setmetatable({ stdin = stdin }, process)
  local handle, pid = uv.spawn(program, {
    args = args,
    cwd = opts.cwd,
    env = environment(opts),
    stdio = { stdin, stdout, stderr or 2 },
  }, function(status, signal)
    self.status, self.signal = status, signal
  end)
  self.handle, self.pid = handle, pid
  self.pipes = { stdin, stdout, stderr }
  if not handle then
    self:close()
    error("cannot run " .. program .. ": " .. tostring(pid), 2)
  end
  reader(self, stdout, "out")
  if stderr then
    reader(self, stderr, "err")
  end
  live[self] = true
  return self
end

--- The next line of its output, or nil and "eof" or "timeout".
function process:read_line(timeout)
  local function line_end()
    return self.out:find("\n", 1, true)
  end
  loop.wait(timeout or DEFAULT_TIMEOUT, function()
    return line_end() or self.out_ended
  end)
  local at = line_end()
  if at then
    local line = self.out:sub(1, at - 1)
    self.out = self.out:sub(at + 1)
    return line
  end
  return nil, self.out_ended and "eof" or "timeout"
end

--- Reads lines until one matches the pattern; returns that line and its
--- captures. Raises, with what was read, when none came.
function process:expect(pattern, timeout)
  local deadline = uv.hrtime() / 1e9 + (timeout or DEFAULT_TIMEOUT)
  local seen = {}
  while true do
    local left = math.max(deadline - uv.hrtime() / 1e9, 0)
    local line, why = self:read_line(left)
    if not line then
      local text = "no line like %q (%s) in:\n%s\n%s"
      error(text:format(pattern, why, table.concat(seen, "\n"), self.out), 2)
    end
    if line:find(pattern) then
      return line, line:match(pattern)
    end
    seen[#seen + 1] = line
  end
end

--- Writes text to its standard input.
function process:write(text)
  self.stdin:write(text)
  loop.turn("nowait")
end

--- Closes its standard input.
function process:close_stdin()
  loop.close(self.stdin)
end

--- Sends a signal ("sigkill" unless told otherwise).
function process:kill(signal)
  return uv.kill(self.pid, signal or "sigkill")
end

--- SIGSTOP (returns when it has stopped) and SIGCONT.
function process:pause()
  return server.pause_pid(self.pid)
end

function process:resume()
  return self:kill("sigcont")
end

--- Waits for its end; returns exit status and signal, or nil, "timeout".
--- What it wrote until then and nobody read is in p.out (and p.err).
function process:wait(timeout)
  local ended = loop.wait(timeout or DEFAULT_TIMEOUT, function()
    return self.status
  end)
  if not ended then
    return nil, "timeout"
  end
  -- A grandchild may hold the pipes open; do not wait for it for long.
  loop.wait(1, function()
    return self.out_ended and (not self.err or self.err_ended)
  end)
  self:close()
  return self.status, self.signal
end

--- Kills it if it still runs, and closes all that belongs to it.
function process:close()
  if self.handle and not self.status then
    self:kill("sigkill")
    loop.wait(DEFAULT_TIMEOUT, function()
      return self.status
    end)
  end
  loop.close(self.handle)
  for i = 1, 3 do
    loop.close(self.pipes[i])
  end
  live[self] = nil
end

--- Kills and closes whatever process.spawn started and is still there: for
--- after_each.
function process.close_all()
  for p in pairs(live) do
    p:close()
  end
end

--- Runs a process to its end: status, output, error output.
function process.run(opts)
  local copy = { stderr = "pipe" }
  for name, value in pairs(opts) do
    copy[name] = value
  end
  local p = process.spawn(copy)
  p:close_stdin()
  local status, signal = p:wait(opts.timeout)
  p:close()
  if signal and signal ~= 0 and status == 0 then
    status = 128 + signal
  end
  return status, p.out, p.err
end

return process
