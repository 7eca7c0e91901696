-- The command's output. A line is one write, so lines of processes with one
-- output do not mix. Text from servers and programs loses control bytes.
local text = require "dlock.text"

local out = {}

local unwritten

function out.say(line)
  local ok, why = io.stdout:write(line .. "\n")
  unwritten = unwritten or not ok and why
end

function out.flushed()
  local ok, why = io.stdout:flush()
  unwritten = unwritten or not ok and why
  return not unwritten
end

function out.problem()
  return tostring(unwritten)
end

function out.complain(message)
  io.stderr:write("dlock: " .. text.escape(message) .. "\n")
end

function out.plain(value)
  return text.escape(value or "?")
end

function out.store(store)
  return (tostring(store):gsub("^dlock%.store: ", ""))
end

function out.seconds(value)
  return value and text.tenths(value) .. " s" or "-"
end

function out.fence(holder)
  return not holder.fence and "?"
    or ("%s%.0f"):format(holder.fence_at_most and "at most " or "",
      holder.fence)
end

return out
