-- Turns the server scripts (scripts/*.lua) into a C header, so that each script
-- stays a readable file of its own and the library still carries its text.
-- Comments, empty lines and blanks that say nothing are dropped: the text
-- travels to the server. Lines stay lines, since errors name their numbers.
-- A line `--@include NAME` becomes scripts/include/NAME.lua. Each script has a
-- form for clusters, and one for those with sharded messages: there the file of
-- that name in include/shard or include/cluster goes before.
-- Behind each text stands its SHA-1, by which EVALSHA names it.
-- usage: lua embed.lua SCRIPTS-DIRECTORY HEADER

local source, header = arg[1], arg[2]
local sha1 = dofile((arg[0]:gsub("[^/]*$", "sha1.lua", 1)))

local function quoted(line)
  return '"' .. line:gsub('[\\"]', "\\%0"):gsub("%?%?", "?\\?") .. '\\n"'
end

-- A line of Lua without what says nothing. Our scripts have strings of one line
-- and no long brackets, and no two '-' of an expression are side by side.
local function bare(line)
  local out, at = {}, 1
  while at <= #line do
    local quote = line:match("^['\"]", at)
    local stop = at
    if quote then
      repeat
        stop = assert(line:find("[\\" .. quote .. "]", stop + 1), line)
        local escaped = line:sub(stop, stop) == "\\"
        if escaped then stop = stop + 1 end
      until not escaped
    elseif line:find("^%-%-", at) then
      break
    elseif line:find("^%s", at) then
      stop = line:find("%S", at) or #line + 1
      local apart = line:sub(at - 1, at - 1) .. line:sub(stop, stop)
      local needed = apart:find("^[%w_][%w_]$") or apart == "--"
        or apart:find("^%.%d$") or apart:find("^%d%.$")
      if needed and not line:find("^%-%-", stop) then out[#out + 1] = " " end
      stop = stop - 1
    end
    if not line:find("^%s", at) then out[#out + 1] = line:sub(at, stop) end
    at = stop + 1
  end
  return table.concat(out)
end

local function readable(path)
  local file = io.open(path)
  if file then file:close() end
  return file and path
end

-- The first of these directories that has the part.
local PLACES = { [""] = { "" }, cluster = { "cluster/", "" },
  shard = { "shard/", "cluster/", "" } }

local function include(name, form)
  for _, place in ipairs(PLACES[form]) do
    local path = ("%s/include/%s%s.lua"):format(source, place, name)
    if readable(path) then return path end
  end
  error("no script " .. name)
end

local function append(lines, path, seen, form)
  assert(not seen[path], "script included by itself: " .. path)
  seen[path] = true
  for line in assert(io.lines(path)) do
    local name = line:match("^%s*%-%-@include%s+([%w_]+)%s*$")
    assert(not line:find("[[", 1, true) and not line:find("[=", 1, true), line)
    if name then
      append(lines, include(name, form), seen, form)
    else
      local text = bare(line)
      if text ~= "" then lines[#lines + 1] = text end
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
}
local function add(name, form, plain)
  local lines = {}
  append(lines, source .. "/" .. name .. ".lua", {}, form)
  local text = table.concat(lines, "\n") .. "\n"
  if form == "shard" then
    text = text:gsub("'NUMSUB'", "'SHARDNUMSUB'")
      :gsub("'PUBLISH'", "'SPUBLISH'")
  end
  if text == plain then
    out[#out + 1] = ("#define dlk_script_%s_%s dlk_script_%s"):format(name,
      form, name)
    out[#out + 1] = ("#define dlk_script_%s_%s_sha dlk_script_%s_sha")
      :format(name, form, name)
    return
  end
  name = plain and name .. "_" .. form or name
  assert((loadstring or load)(text, name)) -- luacheck: globals loadstring
  out[#out + 1] = "static const char dlk_script_" .. name .. "[] ="
  for line in text:gmatch "[^\n]+" do
    out[#out + 1] = "  " .. quoted(line)
  end
  out[#out] = (#lines > 0 and out[#out] or out[#out] .. ' ""') .. ";"
  out[#out + 1] = ('#define dlk_script_%s_sha "%s"'):format(name, sha1(text))
  return text
end
for _, name in ipairs(scripts()) do
  local plain = add(name, "")
  add(name, "cluster", plain)
  add(name, "shard", plain)
end
out[#out + 1] = "#endif"

local file = assert(io.open(header .. ".new", "w"))
assert(file:write(table.concat(out, "\n"), "\n"))
assert(file:close())
assert(os.rename(header .. ".new", header))

return bare
