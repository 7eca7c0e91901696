-- The torture (spec/torture/main.lua) is trusted to see two holders, a fence
-- that falls, a waiter that nobody wakes: here it is shown such things, made up
-- and real.

local checker = require "spec.torture.checker"
local core = require "dlock.core"
local crew = require "spec.torture.crew"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local records = require "spec.torture.records"
local schedule = require "spec.torture.schedule"
local server = require "spec.support.server"
local service = require "spec.torture.service"
local uv = require "luv"
local zk = require "spec.support.zk"

local function hold(start, last, fence, more)
  local h = { key = "k", mode = "x", units = 0, cap = 0, fence = fence,
    by = "w" .. fence, asked = start - 1, start = start, last = last,
    carried = false }
  for name, value in pairs(more or {}) do
    h[name] = value
  end
  return h
end

local function reader(start, last, fence)
  return hold(start, last, fence, { mode = "s" })
end

local function seats(start, last, fence, units)
  return hold(start, last, fence, { mode = "p", units = units, cap = 3 })
end

local function overlaps(...)
  local found = checker.holds { ... }
  return found.overlaps.count, found.fences.count
end

describe("the torture's checker", function()
  it("lets holders follow each other", function()
    assert.are.same({ 0, 0 }, { overlaps(hold(1, 2, 1), hold(2, 3, 2),
      hold(3, 3, 5)) })
  end)

  it("sees two exclusive holders, whatever their order in the list", function()
    assert.are.equal(1, (overlaps(hold(2, 3, 2), hold(1, 2.001, 1))))
  end)

  it("sees a short holder inside of a long one", function()
    assert.are.equal(2, (overlaps(hold(1, 9, 1), hold(2, 2, 2),
      hold(4, 5, 3))))
  end)

  it("lets readers share, and no writer with them", function()
    assert.are.equal(0, (overlaps(reader(1, 3, 1), reader(2, 4, 2))))
    assert.are.equal(1, (overlaps(reader(1, 3, 1), hold(2, 4, 2))))
    assert.are.equal(2, (overlaps(reader(1, 5, 1), reader(1, 5, 2),
      hold(2, 4, 3))))
  end)

  it("adds up permits", function()
    assert.are.equal(0, (overlaps(seats(1, 3, 1, 2), seats(2, 4, 2, 1),
      seats(3, 5, 3, 2))))
    assert.are.equal(1, (overlaps(seats(1, 3, 1, 2), seats(2, 4, 2, 2))))
    assert.are.equal(1, (overlaps(seats(1, 3, 1, 1), hold(2, 4, 2))))
  end)

  it("ignores other keys, and leases that were over when they came", function()
    assert.are.equal(0, (overlaps(hold(1, 3, 1), hold(2, 4, 2, { key = "l" }),
      hold(2, 0, 2))))
  end)

  it("sees a fence that falls or repeats", function()
    assert.are.same({ 0, 1 }, { overlaps(hold(1, 2, 5), hold(3, 4, 4)) })
    assert.are.same({ 0, 1 }, { overlaps(hold(1, 2, 5), hold(3, 4, 5)) })
    assert.are.same({ 0, 1 }, { overlaps(hold(1, 2, 5), reader(3, 4, 4)) })
    assert.are.same({ 0, 1 }, { overlaps(reader(1, 2, 5), hold(3, 4, 4)) })
    assert.are.same({ 0, 0 }, { overlaps(reader(1, 2, 5), reader(3, 4, 4)) })
  end)

  it("lets a hold go on with its fence, attached or downgraded", function()
    assert.are.same({ 0, 0 }, { overlaps(hold(1, 2, 5),
      hold(3, 4, 5, { carried = true })) })
    assert.are.same({ 1, 0 }, { overlaps(hold(1, 4, 5, { carried = true }),
      hold(3, 4, 5, { carried = true })) })
  end)

  it("excuses what a restart with older data excuses", function()
    local found = checker.holds({ hold(1, 4, 1), hold(2, 3, 2), hold(6, 9, 4),
      hold(7, 8, 3) }, { { from = 1.5, to = 2.5 } })
    assert.are.equal(1, found.excused)
    assert.are.equal(1, found.overlaps.count)
    assert.are.equal(1, found.fences.count)
  end)

  local function call(asked, returned, more)
    local c = { by = "w", key = "k", what = "acquire", bound = 2,
      asked = asked, returned = returned, code = "ok", words = "" }
    for name, value in pairs(more or {}) do
      c[name] = value
    end
    return c
  end

  local function judge(c, life)
    local found = checker.calls({ c }, { w = life }, { slack = 1, calm = 4,
      calms = { { from = 10, to = 20 } } })
    return { found.late.count, found.stuck.count, found.strange.count }
  end

  it("sees a call that takes longer than it may", function()
    assert.are.same({ 0, 0, 0 }, judge(call(1, 3.9)))
    assert.are.same({ 1, 0, 0 }, judge(call(1, 4.1)))
    assert.are.same({ 0, 0, 0 }, judge(call(1, 6),
      { stops = { { from = 2, to = 4.5 } } }))
  end)

  it("sees a call that never returned", function()
    assert.are.same({ 0, 0, 0 }, judge(call(1, nil), { ended = 2 }))
    assert.are.same({ 1, 0, 0 }, judge(call(1, nil), { ended = 5 }))
  end)

  it("sees a wait that a calm did not end", function()
    local long = { bound = 60 }
    assert.are.same({ 0, 0, 0 }, judge(call(1, 13.9, long)))
    assert.are.same({ 0, 1, 0 }, judge(call(1, 14.1, long)))
    assert.are.same({ 0, 1, 0 }, judge(call(12, 30, long)))
    assert.are.same({ 0, 0, 0 }, judge(call(18, 30, long)))
  end)

  it("sees an answer that nothing explains", function()
    assert.are.same({ 0, 0, 1 }, judge(call(1, 2, { code = "denied" })))
    assert.are.same({ 0, 0, 0 }, judge(call(1, 2, { code = "lost" })))
  end)

  it("counts no calm in which a server was silent", function()
    local calms = { { from = 10, to = 20 }, { from = 40, to = 50 } }
    local function cut(...)
      local parts, silent = checker.cut(calms, { ... })
      for i, part in ipairs(parts) do
        parts[i] = ("%g-%g"):format(part.from, part.to)
      end
      return table.concat(parts, " "), silent
    end
    assert.are.same({ "10-20 40-50", 0 }, { cut() })
    assert.are.same({ "10-20 40-50", 0 }, { cut({ from = 20, to = 40 }) })
    assert.are.same({ "10-12 15-20 40-50", 3 }, { cut({ from = 12, to = 15 }) })
    assert.are.same({ "11-18 45-50", 8 }, { cut({ from = 18, to = 45 },
      { from = 5, to = 11 }) })
    assert.are.same({ "10-12 17-20 40-50", 5 }, { cut({ from = 12, to = 16 },
      { from = 13, to = 17 }, { from = 14, to = 15 }) })
    assert.are.same({ "10-20 40-41", 9 }, { cut({ from = 41 }) })
    assert.are.same({ "", 20 }, { cut({ from = 1, to = 60 }) })
    local found = checker.calls({ call(10, 20, { bound = 60 }) }, {},
      { slack = 1, calm = 4, calms = checker.cut(calms,
        { { from = 13, to = 17 } }) })
    assert.are.same({ 0, 3 }, { found.stuck.count, found.longest })
  end)

  it("replays a register with and without a check of the fence", function()
    local function write(start, fence)
      return { key = "k", start = start, fence = fence }
    end
    local found = checker.register { write(1, 1), write(2, 2), write(1, 1),
      write(2, 2), write(3, 3) }
    assert.are.same({ writes = 5, unfenced_stale = 1, fenced_stale = 0,
      refused = 1, wrongly = 0 }, found)
    found = checker.register { write(1, 3), write(2, 2), write(1, 3) }
    assert.are.same({ writes = 3, unfenced_stale = 1, fenced_stale = 1,
      refused = 1, wrongly = 1 }, found)
  end)
end)

describe("the torture's records", function()
  local dir
  before_each(function() dir = server.new_dir() end)
  after_each(function() server.remove_dir(dir) end)

  it("come back as they were written", function()
    local written = records.create(dir, "w")
    local first = hold(12345.678901234, 0, 57451010106513,
      { mode = "p", units = 2, cap = 3 })
    local place = written.holds:hold(first)
    written.holds:hold(hold(2, 0, 7, { carried = true }))
    written.holds:at(place, 12346.5)
    written.holds:ended(place, "released")
    local list = records.read_holds(dir .. "/w.holds", "w", {})
    assert.are.equal(2, #list)
    for name, value in pairs(first) do
      if name == "last" then
        value = 12346.5
      elseif name == "by" then
        value = "w"
      end
      assert.are.equal(value, list[1][name])
    end
    assert.are.same({ "released", "-" }, { list[1].how, list[2].how })
    assert.is_true(list[2].carried)
    place = written.calls:call("k", "acquire", 3, 5)
    written.calls:call("k", "release", 1, 6)
    written.calls:ended(place, "unavailable", 7.5, "unavailable: why\n so")
    list = records.read_calls(dir .. "/w.calls", "w", {})
    assert.are.same({ by = "w", key = "k", what = "acquire", bound = 3,
      asked = 5, returned = 7.5, code = "unavailable",
      words = "unavailable: why  so" }, list[1])
    assert.is_nil(list[2].returned)
  end)

  it("of a worker that was killed before its first line are none", function()
    for _, text in ipairs { "", "12345.678" } do
      server.write_file(dir .. "/w.holds", text)
      assert.are.same({}, records.read_holds(dir .. "/w.holds", "w", {}))
      assert.are.same({}, records.read_holds(dir .. "/w.holds", "w", {}, 3))
      assert.are.same({}, records.read_holds(dir .. "/none", "w", {}, 3))
    end
  end)
end)

describe("the torture's schedule", function()
  local profile = require("spec.torture.nemesis.zookeeper").profile

  it("is that of its seed", function()
    local function lines(seed)
      return schedule.lines(schedule.make(seed, 120, profile))
    end
    assert.are.same(lines(7), lines(7))
    assert.are_not.same(lines(7), lines(8))
    assert.is_true(#lines(7) > 20)
  end)

  it("breaks one server at a time, and nothing in a calm", function()
    for seed = 1, 50 do
      local plan, free = schedule.make(seed, 180, profile), 0
      assert.are.equal(3, #plan.calms)
      for _, fault in ipairs(plan.faults) do
        if fault.class == "server" then
          assert.is_true(fault.at >= free)
          free = fault.at + fault.seconds
        end
        for _, calm in ipairs(plan.calms) do
          assert.is_true(fault.at + fault.seconds <= calm.from
            or fault.at >= calm.to)
        end
      end
    end
  end)
end)

-- What runs instead of Lua; first: shell text, with the worker's words in "$*".
local function write_program(dir, first, last)
  local path = dir .. "/program"
  server.write_file(path, ("#!/bin/sh\ncase \"$*\" in\n%s\nesac\n%s\n")
    :format(first, last))
  assert(uv.fs_chmod(path, 448)) -- 0700
  return path
end

describe("the torture's crew", function()
  local dir
  before_each(function() dir = server.new_dir() end)
  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  it("names workers that ended early, and none that it killed", function()
    local workers = crew.new { dir = dir, seed = 1, ends = core.now(),
      nemesis = { url = "none", ttl = 1 }, extra = { lua = write_program(dir,
        "*name=w1.1*) kill -9 $$ ;;\n*name=w2.1*) echo why; exit 3 ;;\n"
          .. "*name=w3.1*) exit 0 ;;", "read -r line; echo done") } }
    for i = 1, 3 do
      loop.eventually("an end", 60, function()
        return workers.members[i].status and workers.members[i].out_ended
      end)
    end
    workers:kill { worker = 1 }
    workers["end kill"](workers, { worker = 1 })
    for _ = 1, 2 do
      assert.are.equal("none", workers:stop { worker = 2 })
    end
    workers:kill { worker = 4 }
    workers["end kill"](workers, { worker = 4 })
    assert.are.same({
      "w1.1 ended early with status 0, signal 9: ",
      "w2.1 ended early with status 3, signal 0: why\n",
    }, workers.crashes)
    workers.crashes = {}
    for _, one in ipairs(workers.members) do
      one:close_stdin()
    end
    workers:finish(60)
    assert.are.same({
      "w2.1 ended with status 3, signal 0",
      "w3.1 ended with status 0, signal 0",
    }, workers.crashes)
    assert.are.same({}, workers.stuck)
  end)
end)

describe("the torture's watch on servers", function()
  it("knows when one of them commits no writes", function()
    local first, second = zk.start(), zk.start()
    finally(function()
      first:stop()
      second:stop()
    end)
    local began = core.now()
    local watch = service.new({ first.url, second.url }, 1)
    local function served(what)
      local from = core.now()
      loop.eventually(what, 60, function()
        return watch:served_since(from)
      end)
    end
    assert.is_false(watch:served_since(began))
    served("a write through each")
    assert(second:pause())
    local from = core.now()
    loop.eventually("a silence", 60, function()
      return watch.open[2]
    end)
    assert.is_false(watch:served_since(from))
    local silence, to = watch.open[2], core.now()
    assert.is_nil(silence.to)
    second:resume()
    served("a write through each again")
    watch:stop()
    assert.are.equal(2, silence.server)
    assert.is_true(silence.from < to and silence.to >= to)
  end)
end)

-- Its workers are of both Luas, whichever runs this.
if _VERSION == "Lua 5.4" then
  describe("the torture", function()
    local dir
    before_each(function() dir = server.new_dir() end)
    after_each(function() server.remove_dir(dir) end)

    local function torture(seconds, seed, ...)
      return process.run { timeout = 90, command = { "lua5.4",
        "spec/torture/main.lua", "redis", seconds, seed, "keep=" .. dir, ... } }
    end

    -- Who is stopped holds something most of the time, not always.
    it("sees workers that believe half a second too long", function()
      local status, out, err
      for seed = 1, 5 do
        server.remove_dir(dir)
        dir = server.new_dir()
        status, out, err = torture("10", tostring(seed), "believe=0.5",
          "only=long-stop", "lua=lua5.4")
        assert.are.equal("", err)
        if status ~= 0 then break end
      end
      assert.are.equal(1, status, out)
      assert.is_true(tonumber(out:match("\noverlaps +(%d+)")) > 0, out)
      assert.matches("\nto see it again: make torture STORE=redis ", out)
    end)

    -- Workers 3, 6 and 1 are killed.
    it("fails for a worker that crashes, and for none that it kills", function()
      local status, out, err = torture("4", "1", "only=kill", "lua="
        .. write_program(dir, "*name=w8.1*) kill -9 $$ ;;",
          ("LUA_CPATH='%s/lua5.4/?.so;;' exec lua5.4 \"$@\"")
            :format(os.getenv("BUILD") or "build")))
      assert.are.equal("", err)
      assert.matches("\nfaults +3 kill\n", out)
      assert.matches("\ncrashes +1\n  w8.1 ended with status 0, signal 9\n",
        out)
      assert.are.equal(1, status, out)
    end)
  end)
end
