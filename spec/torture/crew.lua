-- The workers of a torture: starts them, half under each Lua and half in an
-- event loop, stops and kills them, and knows when that was.

local core = require "dlock.core"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local server = require "spec.support.server"
local uv = require "luv"

local crew = {}
crew.__index = crew

local COUNT = 8
local LUAS = { "lua5.4", "luajit" }
local AIM = 0.5 -- seconds to wait until the one to be stopped holds something
local TWICE = 0.2 -- of the detached strings; the second one must not have it

-- The module paths of a build, for a Lua that is not ours.
local function environment(lua)
  local build = os.getenv("BUILD") or "build"
  return {
    LUA_PATH = "./?.lua;./lua/?.lua;./lua/?/init.lua;;",
    LUA_CPATH = ("./%s/%s/?.so;;"):format(build, lua):gsub("^%./%/", "/"),
    LUA_PATH_5_4 = false, LUA_CPATH_5_4 = false,
  }
end

local function start(self, index)
  self.incarnation[index] = (self.incarnation[index] or 0) + 1
  local name = ("w%d.%d"):format(index, self.incarnation[index])
  local lua = self.extra.lua or LUAS[1 + index % 2]
  local nemesis = self.nemesis
  local words = {
    dir = self.dir, name = name, url = nemesis.url, ttl = nemesis.ttl,
    seed = self.seed + 1000 * index + self.incarnation[index],
    host = index <= COUNT / 2 and "blocking" or "luv",
    session_timeout = nemesis.session_timeout or 2,
    io_timeout = nemesis.io_timeout, portable = nemesis.portable and 1 or 0,
    plain = nemesis.plain and 1 or 0,
    ends = ("%.3f"):format(self.ends), believe = self.extra.believe or 0,
    twice = self.extra.twice or TWICE,
  }
  local command = { lua, "spec/torture/worker.lua" }
  for key, value in pairs(words) do
    command[#command + 1] = key .. "=" .. value
  end
  local one = process.spawn { command = server.listed(command),
    env = environment(lua) }
  one.name = name
  self.members[index] = one
  self.life[name] = { stops = {}, index = index }
end

--- opts: dir, nemesis, seed, ends, extra.
function crew.new(opts)
  local self = setmetatable({ members = {}, incarnation = {}, life = {},
    crashes = {} }, crew)
  for name, value in pairs(opts) do
    self[name] = value
  end
  for index = 1, COUNT do
    start(self, index)
  end
  return self
end

-- Its last hold is not over: the word for its end is still missing.
local function is_holding(self, one)
  local path = self.dir .. "/" .. one.name .. ".holds"
  local file = io.open(path, "rb")
  if not file then
    return false
  end
  local width = #(file:read("*l") or "") + 1
  local size = file:seek("end")
  local last = size >= width and width > 1
    and file:seek("set", size - width) and file:read("*l")
  file:close()
  return last and last:match("^[%d.]+ (%S+)") == "-"
end

-- One that ended before its time, and was not killed.
local function note_end(self, one)
  if one.status and not one.noted then
    one.noted = true
    table.insert(self.crashes, ("%s ended early with status %s, signal %s: %s")
      :format(one.name, tostring(one.status), tostring(one.signal),
        one.err ~= "" and one.err or one.out))
  end
end

--- SIGSTOP, if possible while it holds something.
function crew:stop(fault)
  local one, again = self.members[fault.worker], uv.new_timer()
  again:start(1, 1, function() end)
  loop.wait(AIM, function()
    return is_holding(self, one)
  end)
  loop.close(again)
  local from = core.now()
  note_end(self, one)
  if one.status or not one:pause() then
    return "none"
  end
  table.insert(self.life[one.name].stops, { from = from })
end

crew["long stop"] = crew.stop

crew["end stop"] = function(self, fault)
  local one = self.members[fault.worker]
  local stops = self.life[one.name].stops
  one:resume()
  if #stops > 0 then
    stops[#stops].to = core.now()
  end
end

crew["end long stop"] = crew["end stop"]

--- kill -9; another one comes instead when the fault is over.
function crew:kill(fault)
  local one = self.members[fault.worker]
  note_end(self, one)
  one:kill()
  one:wait()
  self.life[one.name].ended = core.now()
end

crew["end kill"] = function(self, fault)
  start(self, fault.worker)
end

--- Waits until all have ended by themselves; those that do not are stuck.
function crew:finish(seconds)
  self.stuck = {}
  local limit = core.now() + seconds
  for _, one in ipairs(self.members) do
    local status = one:wait(math.max(limit - core.now(), 0.1))
    self.life[one.name].ended = core.now()
    if not status then
      table.insert(self.stuck, one.name)
      one:kill()
      one:wait()
    elseif status ~= 0 or not one.out:find("done\n", 1, true) then
      table.insert(self.crashes, ("%s ended with status %s, signal %s"):format(
        one.name, tostring(status), tostring(one.signal)))
    end
  end
end

local TIDY = [[
  local dlock = require "dlock"
  local store = assert(dlock.open { url = arg[1], ttl = 2, io_timeout = 5,
    session_timeout = 4 })
  for key in arg[2]:gmatch("%S+") do
    local lease = assert(store:lock(key, { timeout = 20 }))
    assert(lease:release())
  end
  assert(store:close(5))
]]

--- Acquires each key once more: it must be free, and this clears away the
--- entries that killed processes left in its queue.
function crew:tidy(keys)
  local status, out, err = process.run { script = TIDY, timeout = 120,
    args = { self.nemesis.url, table.concat(keys, " ") } }
  if status ~= 0 then
    table.insert(self.crashes, "a key is not free: " .. out .. err)
  end
end

crew.kill_all = process.close_all

return crew
