-- Mutual exclusion, tested from outside: processes add 1 to a number in a file,
-- each reading, thinking and writing. Every number must be written once, fences
-- must rise with it, and no two may have been inside at one time. Some are
-- killed with kill -9 while they are inside.

local context = require "spec.contract.context"
local lot = require "spec.support.lot"
local process = require "spec.support.process"
local server = require "spec.support.server"
local subjects = require "spec.contract.subjects"

local PROCESSES, TURNS, VICTIMS = 8, 25, 2

local function new_file()
  local dir = server.new_dir()
  server.write_file(dir .. "/number", ("%012d"):format(0))
  return dir, dir .. "/number"
end

local function spawn(url, key, path, how)
  return process.spawn {
    file = "spec/contract/worker.lua",
    args = { url, key, path, TURNS, how },
  }
end

-- Puts a worker's line into turns; returns any other line.
local function note(line, turns)
  local number, fence, came, left =
    line:match("^turn (%d+) (%d+) ([%d.]+) ([%d.]+)$")
  if not number then
    return line
  end
  turns[#turns + 1] = { number = tonumber(number), fence = tonumber(fence),
    came = tonumber(came), left = tonumber(left) }
end

-- Reads a worker's lines until it says something else than that.
local function collect(worker, turns)
  local other
  repeat
    other = note(assert(worker:read_line(60)), turns)
  until other
  return other
end

-- Kills each victim once it is inside, in whatever order they come there.
local function kill_all(victims, turns)
  while next(victims) do
    for victim in pairs(victims) do
      local line, why = victim:read_line(0.02)
      assert.are_not.equal("eof", why)
      if line and note(line, turns) == "holding" then
        victim:kill()
        victim:wait()
        victims[victim] = nil
      end
    end
  end
end

local function run(url, key, how, victims)
  local dir, path = new_file()
  local workers, dying, turns = {}, {}, {}
  for i = 1, PROCESSES do
    workers[i] = spawn(url, key, path, how)
  end
  for _ = 1, victims do
    dying[spawn(url, key, path, "dies")] = true
  end
  for _, worker in ipairs(workers) do worker:expect("^ready$") end
  for victim in pairs(dying) do victim:expect("^ready$") end
  for _, worker in ipairs(workers) do worker:write("go\n") end
  for victim in pairs(dying) do victim:write("go\n") end
  kill_all(dying, turns)
  for i = 1, PROCESSES do
    assert.are.equal("done", collect(workers[i], turns))
    assert.are.equal(0, (workers[i]:wait()))
  end
  local last = tonumber(server.read_file(path))
  server.remove_dir(dir)
  table.sort(turns, function(a, b)
    if a.number ~= b.number then return a.number < b.number end
    return a.came < b.came
  end)
  return turns, last
end

local function count_faults(turns)
  local twice, fences, overlaps = 0, 0, 0
  for i = 2, #turns do
    local before, now = turns[i - 1], turns[i]
    twice = twice + (now.number == before.number and 1 or 0)
    fences = fences + (now.fence <= before.fence and 1 or 0)
    overlaps = overlaps + (now.came < before.left and 1 or 0)
  end
  return twice, fences, overlaps
end

describe("8 processes and one number", function()
  after_each(process.close_all)

  for _, subject in ipairs(lot.stores(subjects)) do
    it("on " .. subject.name .. ", two of them killed inside", function()
      local key = context.new(subject):key()
      local turns, last = run(subject.url(), key, nil, VICTIMS)
      local twice, fences, overlaps = count_faults(turns)
      assert.are.equal(0, twice)
      assert.are.equal(0, fences)
      assert.are.equal(0, overlaps)
      -- Victims had two turns each, and wrote nothing in their third.
      assert.are.equal(PROCESSES * TURNS + 2 * VICTIMS, #turns)
      assert.are.equal(#turns, last)
    end)
  end

  for _, subject in ipairs(lot.stores(subjects)) do
    it("on " .. subject.name .. ", with local hand-offs in each", function()
      local key = context.new(subject):key()
      local turns, last = run(subject.url(), key, "unfair", 0)
      assert.are.same({ 0, 0, 0 }, { count_faults(turns) })
      assert.are.equal(PROCESSES * TURNS, #turns)
      assert.are.equal(#turns, last)
    end)
  end

  it("without a lock goes wrong, so this test can fail", function()
    local turns, last = run(subjects[3].url(), "unused", "unlocked", 0)
    local twice = count_faults(turns)
    assert.is_true(twice > 0)
    assert.is_true(last < #turns)
  end)
end)
