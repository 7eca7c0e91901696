-- The talk between a spec and its helper processes (proxy, fake server): a line
-- per command, words in hexadecimal so that they may hold any byte, a line back
-- when it is done. `command` is the spec's end, `serve` the helper's.

local control = {}

local unpack = table.unpack or unpack

--- Bytes as hexadecimal digits.
function control.hex(value)
  return (tostring(value):gsub("[%z\1-\255]", function(c)
    return ("%02x"):format(c:byte())
  end))
end

function control.unhex(text)
  return (text:gsub("%x%x", function(digits)
    return string.char(tonumber(digits, 16))
  end))
end

--- Sends a command to a process and waits for its answer.
function control.command(process, timeout, ...)
  local words = { ... }
  for i, word in ipairs(words) do
    words[i] = "x" .. control.hex(word)
  end
  process:write(table.concat(words, " ") .. "\n")
  local line, why = process:read_line(timeout or 10)
  local rest = line and line:match("^ok ?(.*)$")
  if not rest then
    error("helper process: " .. (line or why), 3)
  end
  return rest
end

local function execute(verbs, say, line)
  local words = {}
  for word in line:gmatch("%S+") do
    words[#words + 1] = control.unhex(word:sub(2))
  end
  local result = { pcall(verbs[words[1]], unpack(words, 2)) }
  -- "later": the verb answers by itself when it is done.
  if not (result[1] and result[2] == "later") then
    say(result[1] and "ok" or "error", unpack(result, 2))
  end
end

--- Reads commands from standard input from now on; the process ends with it.
function control.serve(verbs, say)
  local uv = require "luv"
  local input, stdin = "", uv.new_pipe(false)
  stdin:open(0)
  stdin:read_start(function(_, data)
    if not data then
      os.exit(0)
    end
    input = input .. data
    local last = 1
    for line, after in input:gmatch("([^\n]*)\n()") do
      last = after
      execute(verbs, say, line)
    end
    input = input:sub(last)
  end)
end

return control
