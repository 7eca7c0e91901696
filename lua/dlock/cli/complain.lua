-- How the command says on standard error what is wrong: in one line, whatever a
-- server or another program has put into it.
local text = require "dlock.text"

---@param message string
return function(message)
  io.stderr:write("dlock: ", text.escape(message), "\n")
end
