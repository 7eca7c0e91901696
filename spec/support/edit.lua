-- One replacement in a text: { find =, put = }, as faults and mutants are
-- written down. It has to stand there exactly once. However the text is laid
-- out: a blank in `find` stands for any blanks and line ends.

local edit = {}

--- The text with the part replaced; nil and why if it is not there once.
---@param text string
---@param change table find, put
---@return string|nil
---@return string? problem
function edit.apply(text, change)
  local pattern = change.find:gsub("%p", "%%%0"):gsub("%s+", "%%s+")
  local from, to = text:find(pattern)
  if not from then
    return nil, "does not have: " .. change.find
  elseif text:find(pattern, to + 1) then
    return nil, "has it twice: " .. change.find
  end
  return text:sub(1, from - 1) .. change.put .. text:sub(to + 1)
end

return edit
