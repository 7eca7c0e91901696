-- What perf and strace count of a program, for each pair or request. Unlike a
-- time it is the same on a busy machine.

local figures = require "bench.figures"
local process = require "spec.support.process"
local server = require "spec.support.server"

local counted = {}

local function read_perf(text)
  local counters = {}
  for count, name in text:gmatch("(%d+),,instructions:([uk])") do
    counters[name] = tonumber(count)
  end
  return counters
end

local function read_strace(text)
  local counters = {}
  for count, name in text:gmatch("\n *(%d+) ([%w_]+)") do
    if name ~= "total" then counters[name] = tonumber(count) end
  end
  return counters
end

local function say_instructions(name, each, what)
  figures.say("  %-16s instructions a %s: %s in user space, %s in the kernel",
    name, what, each.u and ("%.0f"):format(each.u) or "not counted",
    each.k and ("%.0f"):format(each.k) or "not counted")
end

local function say_calls(name, each, what)
  local list, total = {}, 0
  for call, count in pairs(each) do
    total = total + count
    if count >= 0.05 then
      list[#list + 1] = ("%s %.2f"):format(call, count)
    end
  end
  table.sort(list)
  figures.say("  %-16s system calls a %s: %.2f (%s)", name, what, total,
    table.concat(list, ", "))
end

-- Of all threads of a process; both say it in a file, behind -o.
local TOOLS = {
  { "perf", "stat", "-x,", "-e", "instructions:u,instructions:k",
    read = read_perf, say = say_instructions },
  { "strace", "-f", "-c", "-U", "calls,name",
    read = read_strace, say = say_calls },
}

--- What a tool counts: run(words) has to run it, with these words and more, to
--- its end. Returns its counters, and what run returned.
function counted.by(tool, run)
  local dir = server.new_dir()
  local words = {}
  for i, word in ipairs(tool) do words[i] = word end
  words[#words + 1] = "-o"
  words[#words + 1] = dir .. "/counts"
  local result = run(words)
  local counters = tool.read(server.read_file(dir .. "/counts"))
  server.remove_dir(dir)
  return counters, result
end

local function works(tool)
  local ok, _, status = pcall(counted.by, tool, function(words)
    words[#words + 1] = "true"
    return process.run { command = words }
  end)
  return ok and status == 0
end

--- Has each tool that works here count: count(contender, tool) returns its
--- counters for one of `what`, a pair for example.
function counted.each(contenders, what, count)
  for _, tool in ipairs(TOOLS) do
    if works(tool) then
      for _, contender in ipairs(contenders) do
        tool.say(contender.name, count(contender, tool), what)
      end
    else
      figures.say("  %s does not work here", tool[1])
    end
  end
end

return counted
