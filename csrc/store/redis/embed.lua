-- Turns the server scripts (scripts/*.lua) into a C header, so that each script
-- stays a readable file of its own and the library still carries its text.
-- Comments, leading blanks and empty lines are dropped: the text travels to the
-- server. A line `--@include NAME` becomes scripts/include/NAME.lua.
-- A server that waits for a password takes no text of more than 16 KB, and ends
-- the connection instead of asking for the password: no script is longer.
-- usage: lua embed.lua SCRIPTS-DIRECTORY HEADER

local source, header = arg[1], arg[2]

local function quoted(line)
  return '"' .. line:gsub('[\\"]', "\\%0"):gsub("%?%?", "?\\?") .. '\\n"'
end

-- A line without its leading blanks, and without a comment behind it.
local function bare(line)
  local text = line:match("^%s*(.-)%s*$")
  local code = text:match("^(.-)%s+%-%- ")
  local _, quotes = (code or ""):gsub("['\"]", "")
  assert(quotes % 2 == 0, "a comment, or a string? " .. line)
  return code or text
end

local function append(lines, path, seen)
  assert(not seen[path], "script included by itself: " .. path)
  seen[path] = true
  for line in assert(io.lines(path)) do
    local name = line:match("^%s*%-%-@include%s+([%w_]+)%s*$")
    local text = bare(line)
    if name then
      append(lines, source .. "/include/" .. name .. ".lua", seen)
    elseif text ~= "" and (text:sub(1, 2) ~= "--" or text:sub(3, 3) == "[") then
      lines[#lines + 1] = text
    end
  end
  seen[path] = nil
end

local function scripts()
  local names = {}
  local list = io.popen("ls '" .. source .. "' 2>/dev/null")
  for file in list:lines() do
    names[#names + 1] = file:match("^([%w_]+)%.lua$")
  end
  list:close()
  table.sort(names)
  return names
end

local out = {
  "/* Made from the scripts next to embed.lua; do not edit. */",
  "#ifndef DLK_REDIS_SCRIPTS_H",
  "#define DLK_REDIS_SCRIPTS_H",
  "#include <stddef.h>",
}
for _, name in ipairs(scripts()) do
  local lines = {}
  append(lines, source .. "/" .. name .. ".lua", {})
  local length = #table.concat(lines, "\n") + 1
  assert(length <= 16384, name .. ".lua is too long: " .. length)
  out[#out + 1] = "static const char dlk_script_" .. name .. "[] ="
  for _, line in ipairs(lines) do
    out[#out + 1] = "  " .. quoted(line)
  end
  out[#out] = (#lines > 0 and out[#out] or out[#out] .. ' ""') .. ";"
  out[#out + 1] = ("static const size_t dlk_script_%s_len ="
    .. " sizeof dlk_script_%s - 1;"):format(name, name)
end
out[#out + 1] = "#endif"

local file = assert(io.open(header .. ".new", "w"))
assert(file:write(table.concat(out, "\n"), "\n"))
assert(file:close())
assert(os.rename(header .. ".new", header))
