-- Runs a C program of spec/c that tests by itself: each line that it prints is
-- a test. How many passed; all of them have to.

local process = require "spec.support.process"
local tool = require "spec.support.file_tool"

return function(name, ...)
  local status, out, err = process.run {
    command = { tool.program(name), ... },
    timeout = 120,
  }
  assert(status == 0 and err == ""
    and out:gsub("ok [^\n]*\n", "") == "", tostring(out) .. tostring(err))
  return select(2, out:gsub("ok ", ""))
end
