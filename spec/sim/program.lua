-- Compiles the simulations in C, as shipped or with a fault put back into one
-- of the shipped files.

local edits = require "spec.support.edit"
local files = require "spec.support.files"
local process = require "spec.support.process"
local seeds = require "spec.sim.seeds"
local server = require "spec.support.server"

local program = {}

local FLAGS = "-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Wshadow "
  .. "-Wstrict-prototypes -Wmissing-prototypes -Wconversion -pthread "
  .. "-Icsrc -Ispec/sim "

-- A fault is one edit, or a list of them; those of one file.
local function edits_of(fault, file)
  local list = {}
  for _, edit in ipairs(fault and (fault.edits or { fault }) or {}) do
    list[#list + 1] = edit.file == file and edit or nil
  end
  return list
end

-- A copy of the file with the fault in it.
local function faulty(dir, file, changes)
  local text = assert(files.read(file))
  for _, edit in ipairs(changes) do
    local changed, problem = edits.apply(text, edit)
    text = assert(changed, file .. " " .. tostring(problem))
  end
  local path = dir .. "/" .. file:gsub("/", "_")
  server.write_file(path, text)
  return path
end

local function quietly(command)
  local status, text, err = process.run { command = { "sh", "-ec", command },
    timeout = 120 }
  assert(status == 0, tostring(text) .. tostring(err))
end

-- sources: a list of files; flags: more of the compiler's, libs: the
-- linker's, or nil. What has no fault is compiled once, or is what make has
-- compiled (made). Returns the program's path in dir.
function program.build(dir, name, sources, fault, flags, libs, made)
  local cc = os.getenv("CC") or "cc"
  local build = os.getenv("BUILD") or "build"
  local lines, objects = {}, {}
  for i, file in ipairs(sources) do
    local changes = edits_of(fault, file)
    local bad = changes[1]
    local object = dir .. "/" .. (bad and name .. "_" or "")
      .. file:gsub("/", "_") .. ".o"
    local ready = ("%s/obj/%s.o"):format(build, file:gsub("%.c$", ""))
    if made and not bad then
      lines[#lines + 1] = ("[ -f %s ] || [ ! %s -nt %s ] || cp %s %s"):format(
        object, ready, file, ready, object)
    end
    lines[#lines + 1] = ("[ -f %s ] || %s %s %s %s -c -o %s %s"):format(object,
      cc, FLAGS, flags or "", bad and "-w" or "", object,
      bad and faulty(dir, file, changes) or file)
    objects[i] = object
  end
  local out = dir .. "/" .. name
  lines[#lines + 1] = ("%s -o %s %s %s"):format(cc, out,
    table.concat(objects, " "), libs or "")
  quietly(table.concat(lines, "\n"))
  return out
end

-- Whether it ended well, and what it printed, which is seen at once when a
-- history is played again.
function program.run(path, count, seed, ...)
  local command = { path, tostring(count), tostring(seed or 1), ... }
  local status, text, err = process.run { command = command, timeout = 600 }
  local all = (text or "") .. (err or "")
  if seeds.again then io.stderr:write(all) end
  return status == 0, all
end

return program
