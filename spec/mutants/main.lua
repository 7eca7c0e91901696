-- The mutants: mistakes of one to three lines. Those written by hand, at most
-- 120, break a promise of docs/guarantees.md each, and some spec has to notice.
-- Those by operator are drawn at night; the share that is noticed says what the
-- suite is worth.
--
--   lua5.4 spec/mutants/main.lua check           every one can be put in, and
--                                                each spec named is there
--   lua5.4 spec/mutants/main.lua draw SHARE SEED [ONLY]
--                                                the ids of one in SHARE
--   lua5.4 spec/mutants/main.lua operators N SEED [BASE]
--                                                the ids of N mutants by
--                                                operator (operators.lua), of
--                                                lines changed since BASE
--   lua5.4 spec/mutants/main.lua put ID          puts it in; prints the Lua
--                                                and the specs to run
--   lua5.4 spec/mutants/main.lua take ID         takes it out again
--   lua5.4 spec/mutants/main.lua argued          those that change nothing
--   lua5.4 spec/mutants/main.lua killer ID       the spec, and the test in it,
--                                                that noticed last time
--   lua5.4 spec/mutants/main.lua noticed ID LOG  a line for record, from the
--                                                output of .ci/specs
--   lua5.4 spec/mutants/main.lua record FILE     keeps such lines
--
-- spec/mutants/<room>.lua returns { specs =, lua =, mutants = { ... } }, each$
-- these { name =, file =, find =, put =, specs =, lua =, same = }: `specs` are
-- those that ought to notice (of the room, or of one mutant, which are then run
-- first), `same` argues that a mutant changes nothing that anybody could see.
--
-- spec/mutants/killers/<room>.txt says by which test each was noticed when all
-- were tried (RECORD=1 make mutants): name, spec, test, tabs between them. It
-- is run alone at first, so most mutants take seconds. A share of them is drawn
-- from those that have been noticed; whether the others are is found out by a
-- run over all.

local edit = require "spec.support.edit"
local files = require "spec.support.files"
local operators = require "spec.mutants.operators"

local ROOMS = { "core", "engine", "redis", "sentinel", "redlock", "tls",
  "scripts", "zookeeper", "file", "binding", "lua", "hosts", "texts" }

local function read(path)
  return assert(files.read(path))
end

local function killers_of(room)
  return ("spec/mutants/killers/%s.txt"):format(room)
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  assert(file:close())
end

local function load_all()
  local list, by_id = {}, {}
  for _, name in ipairs(ROOMS) do
    local room = require("spec.mutants." .. name)
    for i, mutant in ipairs(room.mutants) do
      local specs = (mutant.specs and mutant.specs .. " " or "") .. room.specs
      local one = { id = name .. "-" .. i, mutant = mutant, room = name,
        lua = mutant.lua or room.lua or "lua5.4", specs = specs }
      list[#list + 1] = one
      by_id[one.id] = one
    end
  end
  return list, by_id
end

-- A number for each id and seed, the same on every machine.
local function lot(id, seed)
  local n = seed % 2147483647
  for i = 1, #id do
    n = (n * 48271 + id:byte(i)) % 2147483647
  end
  for _ = 1, 8 do
    n = n * 48271 % 2147483647
  end
  return n
end

local verbs = {}

local function exists(path)
  local file = io.open(path, "rb")
  return file ~= nil and file:close()
end

-- What cannot be right in a mutant, each as a text.
local function problems_of(one)
  local found = {}
  local text, problem = edit.apply(read(one.mutant.file), one.mutant)
  if not text then
    found[1] = one.mutant.file .. " " .. problem
  end
  for path in one.specs:gmatch("%S+") do
    if not exists(path) then
      found[#found + 1] = "there is no " .. path
    end
  end
  return found
end

local function has_word(text, word)
  return (" " .. text .. " "):find(" " .. word .. " ", 1, true) ~= nil
end

-- A line of killers/<room>.txt: of a mutant, and of a spec that is one of its
-- own, since those are run when this test does not notice.
local function problem_of_killer(one, spec)
  if not one then
    return "there is no such mutant"
  elseif not has_word(one.specs, spec) then
    return spec .. " is none of its specs"
  end
end

-- By room and name, since the numbers move.
local function load_killers()
  local known = {}
  for _, room in ipairs(ROOMS) do
    for line in io.lines(killers_of(room)) do
      local name, spec, test = line:match("^(.-)\t(.-)\t(.*)$")
      known[room .. "\t" .. name] = { spec = spec, test = test }
    end
  end
  return known
end

local function called(one)
  return one.room .. "\t" .. one.mutant.name
end

local function check_killers(list)
  local named, bad = {}, 0
  for _, one in ipairs(list) do
    named[called(one)] = one
  end
  for name, killer in pairs(load_killers()) do
    local problem = problem_of_killer(named[name], killer.spec)
    if problem then
      bad = bad + 1
      print(("killers: %s: %s"):format(name:gsub("\t", ": "), problem))
    end
  end
  return bad
end

function verbs.check()
  local list, bad = load_all(), 0
  for _, one in ipairs(list) do
    local found = problems_of(one)
    bad = bad + (found[1] and 1 or 0)
    for _, problem in ipairs(found) do
      print(("%s (%s): %s"):format(one.id, one.mutant.name, problem))
    end
  end
  local wrong = check_killers(list)
  print(("%d mutants, %d cannot be put in or tried, %d killers are wrong")
    :format(#list, bad, wrong))
  return bad + wrong == 0
end

-- only: ids, beginnings of ids ("redis-"), parts of file names.
local function is_wanted(one, only)
  for word in (only or ""):gmatch("%S+") do
    local room = word:match("^%a+%-$")
    if one.id == word or room and one.id:find(room, 1, true) == 1
        or one.mutant.file:find(word, 1, true) then
      return true
    end
  end
  return not only
end

function verbs.draw(share, seed, only)
  local list, drawn, killers = load_all(), {}, load_killers()
  for _, one in ipairs(list) do
    local fine = share == "1" or killers[called(one)]
    if fine and is_wanted(one, only) and not one.mutant.same then
      drawn[#drawn + 1] = one.id
    end
  end
  table.sort(drawn, function(a, b)
    return lot(a, tonumber(seed)) < lot(b, tonumber(seed))
  end)
  for i = 1, math.ceil(#drawn / tonumber(share)) do
    print(drawn[i])
  end
  return true
end

-- The numbers of the lines that git calls changed, by file; of all files
-- without a base: true.
local function changed_lines(base)
  local by_file, path = {}, nil
  local command = base and ("git diff -U0 %s -- csrc lua"):format(base)
    or "git ls-files csrc lua"
  local out = assert(io.popen(command))
  for line in out:lines() do
    local from, count = line:match("^@@ [^+]*%+(%d+),?(%d*) @@")
    if not base then
      by_file[line] = true
    elseif line:find("^%+%+%+ ") then
      path = line:match("^%+%+%+ b/(.*)")
    elseif from and path then
      by_file[path] = by_file[path] or {}
      for i = from, from + (tonumber(count) or 1) - 1 do
        by_file[path][i] = true
      end
    end
  end
  out:close()
  return by_file
end

function verbs.operators(count, seed, base)
  local ids = {}
  for path, lines in pairs(changed_lines(base)) do
    if operators.room(path) then
      for _, id in ipairs(operators.list(path, lines ~= true and lines)) do
        ids[#ids + 1] = id
      end
    end
  end
  table.sort(ids, function(a, b)
    local lot_a, lot_b = lot(a, tonumber(seed)), lot(b, tonumber(seed))
    return lot_a < lot_b or lot_a == lot_b and a < b
  end)
  for i = 1, math.min(#ids, tonumber(count)) do
    print(ids[i])
  end
  return true
end

-- A mutant by operator has the specs of its room.
local function find_by_operator(id)
  local mutant = operators.find(id)
  local room = require("spec.mutants." .. mutant.room)
  return { id = id, mutant = mutant, room = mutant.room,
    lua = room.lua or "lua5.4", specs = room.specs }
end

local function find(id)
  if id:find("^op:") then
    return find_by_operator(id)
  end
  local _, by_id = load_all()
  return assert(by_id[id], "no mutant has the id " .. tostring(id))
end

function verbs.put(id)
  local one = find(id)
  local text = read(one.mutant.file)
  local changed = one.mutant.text or assert(edit.apply(text, one.mutant))
  write(one.mutant.file .. ".shipped", text)
  write(one.mutant.file, changed)
  print(one.lua)
  print(one.specs)
  print(one.mutant.name)
  return true
end

function verbs.take(id)
  local file = id:match("^op:(.+):%d+:%d+$") or find(id).mutant.file
  write(file, read(file .. ".shipped"))
  assert(os.remove(file .. ".shipped"))
  return true
end

function verbs.argued()
  for _, one in ipairs((load_all())) do
    if one.mutant.same then
      print(("%s: %s: %s"):format(one.id, one.mutant.name, one.mutant.same))
    end
  end
  return true
end

function verbs.killer(id)
  local killer = not id:find("^op:") and load_killers()[called(find(id))]
  if killer then
    print(killer.spec)
    print(killer.test)
  end
  return killer and true or false
end

-- A spec is named in the report when it is over. One that crashed or hangs is
-- the first that is not named; the watchdog may have said which test it was.
function verbs.noticed(id, log)
  if id:find("^op:") then
    return true
  end
  local one, text = find(id), read(log)
  local name, rest = text:match("\nFAILED ([^\n]+)(.*)")
  if not name then
    return false
  end
  local test = name:match("^after %d+ s, with no end in sight: (.*)")
    or name:match("did not finish.-, last: (.*)")
  local spec
  for path in test and one.specs:gmatch("%S+") or function() end do
    spec = spec or not text:find("\n  " .. path, 1, true) and path
  end
  spec = spec or rest:match("\n  (%S+_spec%.lua) +%d+ passed")
  if not spec or test == "" then
    return false
  end
  print(("%s\t%s\t%s"):format(called(one), spec, test or name))
  return true
end

function verbs.record(path)
  local known, lines = load_killers(), {}
  for line in io.lines(path) do
    local one, spec, test = line:match("^(.-\t.-)\t(.-)\t(.*)$")
    known[one] = { spec = spec, test = test }
  end
  for _, room in ipairs(ROOMS) do
    lines[room] = {}
  end
  for _, one in ipairs((load_all())) do
    local killer, list = known[called(one)], lines[one.room]
    if killer then
      list[#list + 1] = ("%s\t%s\t%s\n"):format(one.mutant.name, killer.spec,
        killer.test)
    end
  end
  for room, list in pairs(lines) do
    table.sort(list)
    write(killers_of(room), table.concat(list))
  end
  return true
end

local verb = verbs[arg[1] or ""]
if not verb then
  io.stderr:write("usage: see the top of spec/mutants/main.lua\n")
  os.exit(64)
end
os.exit(verb(arg[2], arg[3], arg[4]) and 0 or 1)
