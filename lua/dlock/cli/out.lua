-- What the command prints. A line is one write, so that lines of several
-- processes that share an output do not mix. What a server or another program
-- has put into a line comes without control bytes.
local text = require "dlock.text"

local out = {}

-- Why something could not be written; the first failure.
local unwritten

--- Prints a line.
function out.say(line)
  local ok, why = io.stdout:write(line .. "\n")
  unwritten = unwritten or not ok and why
end

--- Whether all that was printed is written.
function out.flushed()
  local ok, why = io.stdout:flush()
  unwritten = unwritten or not ok and why
  return not unwritten
end

--- Why it is not.
function out.problem()
  return tostring(unwritten)
end

--- Says on standard error, in one line.
function out.complain(message)
  io.stderr:write("dlock: " .. text.escape(message) .. "\n")
end

--- Text of another program for a line.
function out.plain(value)
  return text.escape(value or "?")
end

--- A store, as its URL without secrets.
function out.store(store)
  return (tostring(store):gsub("^dlock%.store: ", ""))
end

--- Seconds for a line.
function out.seconds(value)
  return value and text.tenths(value) .. " s" or "-"
end

--- A fence for a line.
function out.fence(holder)
  return not holder.fence and "?"
    or ("%s%.0f"):format(holder.fence_at_most and "at most " or "",
      holder.fence)
end

return out
