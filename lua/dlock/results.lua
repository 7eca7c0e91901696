-- What leaves a public call: one value alone when it worked, else nil, message,
-- code. Inside dlock three values are passed on; a caller counts them, with
-- table.insert, print or select("#").
local results = {}

--- The three without the nils at their end.
---@param first any
---@param second any a message; or the cursor of a list
---@param code any
---@return any ...
function results.of(first, second, code)
  if code ~= nil then
    return first, second, code
  elseif second ~= nil then
    return first, second
  end
  return first
end

return results
