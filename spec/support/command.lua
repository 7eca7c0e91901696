-- The command `dlock` in processes of its own, for its specs; and what each
-- test has there, a store or a directory, until command.clean.
local dlock = require "dlock"
local process = require "spec.support.process"
local server = require "spec.support.server"

local command = {}

local counter, dir, store = 0, nil, nil

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

--- A key, and a store that these options open.
function command.open(opts)
  store = assert(dlock.open(opts))
  return command.key(), store
end

--- How many wait for key. A Redlock has no queue that could be inspected.
function command.waiters(subject, at, key)
  if subject.plain then return subject.waiters(key) end
  local found = at:inspect(key)
  return found and #found.waiters or 0
end

--- A directory, and the URL of a file store in it.
function command.new_dir()
  dir = server.new_dir()
  return dir, "file://" .. dir .. "/locks"
end

--- Ends what a test has begun.
function command.clean()
  process.close_all()
  if store then assert(store:close()) end
  if dir then server.remove_dir(dir) end
  dir, store = nil, nil
end

return command
