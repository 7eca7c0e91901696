-- What a page says that a database answers to what people do instead of a lock:
-- lines of SQL that begin with the program's name in a comment, behind which
-- stands the answer.

local pages = require "spec.support.pages"

--- Runs all such lines of a page, and asserts their answers; how many they are.
--- Each block has connections of its own.
---@param page string
---@param connect function of a program's name, gives a session
return function(page, connect)
  local count = 0
  for _, block in ipairs(pages.blocks(page)) do
    local sessions = {}
    for _, line in ipairs(block.language == "sql" and block or {}) do
      local name, sql, answer = line:match("^/%* ([%a ]+) %*/ (.*);(.*)$")
      if name then
        sessions[name] = sessions[name] or connect(name)
        local said, problem = sessions[name]:run(sql)
        assert(said == (answer:match("^ %-%- (.*)$") or ""),
          line .. "\nbut: " .. tostring(said or problem))
        count = count + 1
      end
    end
    for _, one in pairs(sessions) do one:close() end
  end
  return count
end
