-- The command `dlock` in processes of its own, for its specs.
local process = require "spec.support.process"

local command = {}

local counter = 0

--- A key that no other test has.
function command.key()
  counter = counter + 1
  return ("cli:%d:%d"):format(os.time(), counter)
end

local function options(...)
  return { file = "bin/dlock", args = { ... }, stderr = "pipe" }
end

--- Runs it to its end: status, output, error output.
function command.run(...)
  return process.run(options(...))
end

--- Starts it.
function command.spawn(...)
  return process.spawn(options(...))
end

return command
