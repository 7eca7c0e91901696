-- Files as a whole, in nothing but Lua: for programs that have no libuv too.
local files = {}

--- The text of a file, or nil and why.
---@return string|nil
---@return string? problem
function files.read(path)
  local file, problem = io.open(path, "rb")
  if not file then
    return nil, problem
  end
  local text = file:read("*a")
  file:close()
  return text
end

return files
