-- The first data of a server whose making takes seconds: a run makes them once,
-- and each server begins with a copy.
--
--   template.copy("mysql", make, to)     -- make(dir) fills an empty directory

local process = require "spec.support.process"
local server = require "spec.support.server"
local uv = require "luv"

local template = {}

--- Runs a command that must succeed, with this input; what it printed.
---@param command table
---@param input string|nil
function template.run(command, input)
  local p = process.spawn { command = command, stderr = "pipe" }
  if input then p:write(input) end
  p:close_stdin()
  local status = p:wait(120)
  p:close()
  assert(status == 0, table.concat(command, " ") .. ":\n" .. p.out .. p.err)
  return p.out
end

local function copy(from, to)
  template.run { "cp", "-a", from .. "/.", to }
end

--- Fills the directory `to`.
---@param name string of the kind of server
---@param make function
---@param to string
function template.copy(name, make, to)
  local test_run = os.getenv("DLOCK_TEST_DIR")
  local memory = test_run and test_run .. "/memory"
  local base = memory and uv.fs_stat(memory) and memory or test_run
  local kept = base and ("%s/dlock-test-%s"):format(base, name)
  if kept and uv.fs_stat(kept) then return copy(kept, to) end
  local made = base and assert(uv.fs_mkdtemp(base .. "/dlock-test-XXXXXX"))
    or server.new_dir()
  make(made)
  -- Another process of the run may have been faster.
  if kept and uv.fs_rename(made, kept) then return copy(kept, to) end
  copy(made, to)
  server.remove_dir(made)
end

--- Fills it anew.
function template.renew(name, make, to)
  template.run { "find", to, "-mindepth", "1", "-delete" }
  template.copy(name, make, to)
end

return template
