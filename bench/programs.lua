-- The programs that are measured: { command =, env = }, as process.spawn takes
-- them.

local process = require "spec.support.process"

local programs = {}

local BUILD = os.getenv("BENCH_BUILD")
local environments = {}

-- What .ci/env says for a Lua's own build of dlock.
local function environment(lua)
  if not environments[lua] then
    local status, text, err = process.run { command = { "bash", "-c",
      '.ci/env "$(realpath -m "$1")"', "bash", BUILD .. "/" .. lua } }
    assert(status == 0, err)
    local env = {}
    for name, value in text:gmatch("export ([%w_]+)='([^\n]*)'\n") do
      env[name] = value
    end
    environments[lua] = env
  end
  return environments[lua]
end

local function words(command, ...)
  for i = 1, select("#", ...) do
    command[#command + 1] = tostring((select(i, ...)))
  end
  return command
end

--- A Lua with its own build of dlock: script, arguments.
function programs.lua(lua, ...)
  return { command = words({ lua }, ...), env = environment(lua) }
end

--- A floor in C ("redis", "etcd", …), arguments.
function programs.floor(store, ...)
  return { command = words({ BUILD .. "/bench/floor_" .. store }, ...) }
end

--- Somebody else's library, in Python (Debian's is asked first): its name, the
--- store, arguments. Nil where it is not installed.
function programs.peer(name, store, ...)
  for _, python in ipairs { "/usr/bin/python3", "python3" } do
    local command = { python, "-c", "import " .. name }
    local found, status = pcall(process.run, { command = command })
    if found and status == 0 then
      return { command =
        words({ python, "bench/peer_" .. store .. ".py" }, ...) }
    end
  end
end

--- The same program as the last arguments of another: perf, strace.
function programs.under(program, ...)
  local command = words({}, ...)
  return { command = words(command, (table.unpack or unpack)(program.command)),
    env = program.env }
end

--- Runs one to its end: what it wrote.
function programs.output(program)
  local status, out, err = process.run { command = program.command,
    env = program.env, timeout = 300 }
  assert(status == 0, err)
  return out
end

--- The same, for one that prints a number.
function programs.number(program)
  local out = programs.output(program)
  return assert(tonumber(out:match("[%d.]+")), out)
end

return programs
