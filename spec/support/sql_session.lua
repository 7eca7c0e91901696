-- A connection of a database's own client program: what it begins stays open.
--
--   local s = sql_session.new(command, "SELECT '--end %d';", problem)
--   s:run "BEGIN"; s:send "SELECT 1"; s:answer() --> "1"; s:close()

local process = require "spec.support.process"

local session = {}
session.__index = session

--- mark: has the client print "--end" and the number. problem(p, rest): what
--- was wrong with the last statement, out of the process and the rest of that
--- line; nil if it was done.
---@param command table
---@param mark string
---@param problem function
function session.new(command, mark, problem)
  local p = process.spawn { command = command, stderr = "pipe" }
  for _, handle in ipairs { p.handle, p.stdin, p.pipes[2], p.pipes[3] } do
    handle:unref()
  end
  return setmetatable({ p = p, n = 0, pid = p.pid, mark = mark,
    problem = problem }, session)
end

--- Sends statements, of which `answer` gives what the server says.
function session:send(sql)
  self.n = self.n + 1
  self.p:write(("%s;\n" .. self.mark .. "\n"):format(sql, self.n))
end

--- The rows of what was sent last; nil, message when the last statement failed.
function session:answer(timeout)
  local rows, last, rest = {}, ("^%%-%%-end %d ?(.*)$"):format(self.n), nil
  while not rest do
    local line, why = self.p:read_line(timeout)
    assert(line, "the client: " .. tostring(why) .. " " .. self.p.err)
    rows[#rows + 1] = line
    rest = line:match(last)
  end
  local message = self.problem(self.p, rest)
  if message then return nil, message end
  return table.concat(rows, "\n", 1, #rows - 1)
end

function session:run(sql, timeout)
  self:send(sql)
  return self:answer(timeout)
end

function session:close()
  self.p:close()
end

return session
