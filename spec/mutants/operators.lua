-- Mutants by operator: conditions, constants and statements of the sources,
-- changed one at a time. Nobody chooses them, so the share that is noticed is
-- no measure of a list that was written from the same sources.
--
-- A mutant's id is "op:FILE:LINE:N", the Nth change of that line.

local files = require "spec.support.files"

local operators = {}

-- The room whose specs notice a mistake in a file: the first prefix counts.
local SUBJECTS = {
  { "csrc/core/", "core" }, { "csrc/loop/", "engine" },
  { "csrc/engine/", "engine" }, { "csrc/tls/", "tls" },
  { "csrc/store/redis/scripts/", "scripts" },
  { "csrc/store/redis/conn/sentinel", "sentinel" },
  { "csrc/store/redlock/", "redlock" },
  { "csrc/store/redis/", "redis" }, { "csrc/net/", "redis" },
  { "csrc/store/session/etcd/", "etcd" },
  { "csrc/store/session/consul/", "consul" },
  { "csrc/store/sql/", "postgres" },
  { "csrc/store/session/", "zookeeper" },
  { "csrc/store/zookeeper/", "zookeeper" }, { "csrc/store/file/", "file" },
  { "csrc/lua/", "binding" }, { "lua/dlock/host/", "hosts" },
  { "lua/dlock/url", "texts" }, { "lua/dlock/options", "texts" },
  { "lua/dlock/text", "texts" }, { "lua/dlock/json", "texts" },
  { "lua/dlock/", "lua" },
}

--- The room of a source file; nil for a file that no room tests.
---@param path string
---@return string|nil
function operators.room(path)
  for _, subject in ipairs(SUBJECTS) do
    if path:sub(1, #subject[1]) == subject[1] then
      return subject[2]
    end
  end
end

-- Each is { what, pattern, replacement }; the replacement may be a function.
local SHARED = {
  { "the relation is turned", " == ", { c = " != ", lua = " ~= " } },
  { "the relation is turned", " ([!~])= ", " == " },
  { "the bound is another", " <= ", " < " },
  { "the bound is another", " < ", " <= " },
  { "the bound is another", " >= ", " > " },
  { "the bound is another", " > ", " >= " },
  { "true is false", "%f[%w_]true%f[^%w_]", "false" },
  { "false is true", "%f[%w_]false%f[^%w_]", "true" },
  { "the number is larger", "%f[%w_.]([1-9]%d*)%f[^%w_.]", function(n)
    return ("%d"):format(n + 1)
  end },
}

local OWN = {
  c = {
    { "both are one of both", " && ", " || " },
    { "one of both is both", " || ", " && " },
    { "the condition is negated", "^(%s*if )(%b())", "%1(!%2)" },
    { "the statement is gone", "^(%s+)[%l_][%w_%->.]*%b();$", "%1;" },
    { "the statement is gone", "^(%s+)[%l_*][%w_%->.%[%]]* [+-]?= .*;$",
      "%1;" },
  },
  lua = {
    { "both are one of both", " and ", " or " },
    { "one of both is both", " or ", " and " },
    { "the condition is negated", "^(%s*if )(.*)( then)$", "%1not (%2)%3" },
    { "the statement is gone", "^(%s+)[%l_][%w_.:]*%b()$", "%1do end" },
  },
}

local function language(path)
  return path:match("%.[ch]$") and "c" or path:match("%.lua$") and "lua"
end

local function is_code(line)
  return not line:find("^%s*[/*#-]") and not line:find("^[%w}]")
end

-- The line with the change at `from`; nil where the pattern is not there.
local function changed(line, operator, from, kind)
  local put = operator[3]
  put = type(put) == "table" and put[kind] or put
  local first, last = line:find(operator[2], from)
  if first then
    local part = line:sub(first, last):gsub(operator[2], put, 1)
    return line:sub(1, first - 1) .. part .. line:sub(last + 1), last
  end
end

-- All changes of one line, in the order that their numbers count.
local function changes_of(line, kind)
  local found = {}
  for _, list in ipairs { SHARED, OWN[kind] } do
    for _, operator in ipairs(list) do
      local from = 1
      while from and from <= #line do
        local text, last = changed(line, operator, from, kind)
        if text and text ~= line then
          found[#found + 1] = { name = operator[1], text = text }
        end
        from = last and not operator[2]:find("^^") and last + 1
      end
    end
  end
  return found
end

local function lines_of(path)
  local list = {}
  for line in assert(files.read(path)):gmatch("([^\n]*)\n") do
    list[#list + 1] = line
  end
  return list
end

--- The ids of all changes in one file.
---@param path string
---@param only table|nil the numbers of the lines that count, as keys
---@return string[]
function operators.list(path, only)
  local ids, kind = {}, language(path)
  for number, line in ipairs(kind and lines_of(path) or {}) do
    if is_code(line) and (not only or only[number]) then
      for i in ipairs(changes_of(line, kind)) do
        ids[#ids + 1] = ("op:%s:%d:%d"):format(path, number, i)
      end
    end
  end
  return ids
end

--- A mutant of that id.
---@param id string
---@return table mutant file, name, room, text (of the whole file)
function operators.find(id)
  local path, number, i = id:match("^op:(.+):(%d+):(%d+)$")
  local list = lines_of(assert(path, "no such id: " .. id))
  number = tonumber(number)
  local change = assert(changes_of(list[number], language(path))[tonumber(i)],
    "no such change: " .. id)
  list[number] = change.text
  return { file = path, room = operators.room(path),
    name = ("%s: %s"):format(change.name, change.text:match("^%s*(.*)$")),
    text = table.concat(list, "\n") .. "\n" }
end

return operators
