-- Looks into our libraries, and compiles a few lines of C for a spec: what Lua
-- cannot do in a process under test (fork), or has to do to it (a clock that
-- jumps, as LD_PRELOAD). They need no lua.h: a function that package.loadlib
-- finds gets the state as a pointer that it ignores, and tells by an
-- environment variable.

local process = require "spec.support.process"
local server = require "spec.support.server"
local uv = require "luv"

local library = {}

local function compile(path, source, flags)
  server.write_file(path .. ".c", source)
  local command = { "cc", "-D_GNU_SOURCE", "-O1", "-g", "-o", path,
    path .. ".c" }
  for _, flag in ipairs(flags) do command[#command + 1] = flag end
  local status, _, err = process.run { command = command, timeout = 120 }
  assert(status == 0, err)
  return path
end

--- A shared library in dir, from its source; flags: for the compiler. Its path.
function library.build(dir, name, source, flags)
  local all = { "-shared", "-fPIC", "-ldl", "-pthread" }
  for _, flag in ipairs(flags or {}) do all[#all + 1] = flag end
  return compile(dir .. "/" .. name .. ".so", source, all)
end

--- A program, likewise.
function library.program(dir, name, source, flags)
  return compile(dir .. "/" .. name, source, flags or {})
end

--- Where `require` finds a library of ours: name as "dlock/store/redis".
function library.find(name)
  for template in package.cpath:gmatch("[^;]+") do
    local path = template:gsub("%?", name)
    if uv.fs_stat(path) then return path end
  end
  error("no library " .. name)
end

--- The names of what such a library takes from others.
function library.taken(name)
  local status, out = process.run { command = { "nm", "-D",
    "--undefined-only", library.find(name) } }
  assert(status == 0, out)
  local names = {}
  for symbol in out:gmatch("U ([%w_]+)") do names[#names + 1] = symbol end
  return names
end

--- The environment of a process into which it is loaded before all others (but
--- for a sanitizer's runtime).
function library.preload(path)
  local before = os.getenv("DLOCK_TEST_RUNTIME")
  return { LD_PRELOAD = (before and before .. ":" or "") .. path }
end

return library
