-- Busted's output for `make test`: a line for every file, the details of what
-- failed, and the counts in a file of their own ($DLOCK_REPORT), so that a test
-- that prints anything, crashes or hangs cannot be taken for one that passed.
-- While a test runs, its name stands in $DLOCK_REPORT.now; the files and names
-- of those that failed, in $DLOCK_REPORT.failed; their details are added to
-- $DLOCK_FAILED, which several runs share.

local leftovers = require "spec.support.leftovers"

local report = os.getenv("DLOCK_REPORT")
local write = io.write

-- Tests that take longer are named: nothing should sleep longer than it must.
local SLOW = 3

local function save(path, text, how)
  local file = path and io.open(path, how or "w")
  if file then
    file:write(text, "\n")
    file:close()
  end
end

local function describe(failure)
  local message = failure.message
  if type(message) ~= "string" then
    message = message == nil and "nil error" or require("pl.pretty").write(
      message)
  end
  local at = failure.element.trace or failure.trace or {}
  local text = ("FAILED %s\n  %s:%s\n  %s"):format(failure.name,
    tostring(at.short_src), tostring(at.currentline),
    (message:gsub("\n", "\n  ")))
  local trace = failure.trace and failure.trace.traceback
  if trace and failure.isError then
    text = text .. "\n  " .. trace:gsub("^\n", ""):gsub("\n", "\n  ")
  end
  write(text, "\n")
  save(os.getenv("DLOCK_FAILED"), text, "a")
end

return function()
  local busted = require "busted"
  local handler = require "busted.outputHandlers.base"()
  local clock = require("system").gettime
  local in_file

  local function file_start(file)
    in_file, file.began = file.name, clock()
    file.passed_before = handler.successesCount
    return nil, true
  end

  local function file_end(file)
    local left = leftovers.kinds()
    if left ~= "" then
      write(("  left in the loop: %s\n"):format(left))
      leftovers.release()
    end
    write(("  %-34s %4d passed %7.2f s\n"):format(file.name,
      handler.successesCount - file.passed_before, clock() - file.began))
    io.flush()
    return nil, true
  end

  local function test_start(element)
    element.began = clock()
    save(report and report .. ".now", handler.getFullName(element))
    return nil, true
  end

  local function test_end(element, _, status)
    local took = clock() - (element.began or clock())
    if took > SLOW then
      write(("  slow: %s %.1f s\n"):format(handler.getFullName(element), took))
    end
    if status == "failure" then
      describe(handler.failures[#handler.failures])
    elseif status == "error" then
      describe(handler.errors[#handler.errors])
    end
    if report and (status == "failure" or status == "error") then
      save(report .. ".failed", ("%s\t%s"):format(in_file,
        handler.getFullName(element)), "a")
      leftovers.release()
    end
    io.flush()
    return nil, true
  end

  local function other_error(element)
    if element.descriptor ~= "it" then
      describe(handler.errors[#handler.errors])
    end
    return nil, true
  end

  local function suite_end()
    save(report, ("%d %d %d"):format(handler.successesCount,
      handler.failuresCount + handler.errorsCount, handler.pendingsCount))
    return nil, true
  end

  busted.subscribe({ "file", "start" }, file_start)
  busted.subscribe({ "file", "end" }, file_end)
  busted.subscribe({ "test", "start" }, test_start)
  busted.subscribe({ "test", "end" }, test_end)
  busted.subscribe({ "error" }, other_error)
  busted.subscribe({ "failure" }, other_error)
  busted.subscribe({ "suite", "end" }, suite_end)
  return handler
end
