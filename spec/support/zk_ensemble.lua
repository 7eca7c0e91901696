-- Three ZooKeeper servers, to be broken one at a time: killed, stopped, or cut
-- off from the others while clients still reach it. For what breaks them in a
-- drawn order (spec/torture) and one by one (spec/zookeeper).
--
--   local three = zk_ensemble.start { sync_limit = 6 }; three.url
--   three:leader(); three:kill(id); three:start_again(id)
--   three:pause(id); three:resume(id); three:cut_off("hold"); three:join()
--   three:mend(); three:serves(20); three:stop()

local loop = require "spec.support.loop"
local proxy = require "spec.support.proxy"
local uv = require "luv"
local zk = require "spec.support.zk"
local zk_client = require "spec.support.zk_client"

local zk_ensemble = {}
zk_ensemble.__index = zk_ensemble

--- opts: as of zk.start_ensemble. The last server reaches the others by links
--- of its own while it follows, and only that one can be cut off.
function zk_ensemble.start(opts)
  local self = setmetatable({ links = {}, last = 3, killed = {},
    paused = {} }, zk_ensemble)
  local all = { between = function(port)
    local link = proxy.start("127.0.0.1:" .. port)
    table.insert(self.links, link)
    return link.port
  end }
  for name, value in pairs(opts or {}) do
    all[name] = value
  end
  self.servers = zk.start_ensemble(self.last, all)
  self.url, self.urls = self.servers.url, {}
  for id, one in ipairs(self.servers) do
    self.urls[id] = one.url
  end
  return self
end

--- The number of the leader; nil if there is none after `seconds` (20).
function zk_ensemble:leader(seconds)
  local leader
  pcall(loop.eventually, "a leader", seconds or 20, function()
    leader = self.servers:leader()
    return leader
  end)
  return leader
end

function zk_ensemble:kill(id)
  self.killed[id] = true
  self.servers[id]:kill()
end

function zk_ensemble:start_again(id)
  self.killed[id] = nil
  self.servers[id]:start_again()
end

function zk_ensemble:pause(id)
  self.paused[id] = true
  self.servers[id]:pause()
end

function zk_ensemble:resume(id)
  self.paused[id] = nil
  self.servers[id]:resume()
end

--- Has the last server follow, by a restart if it leads.
function zk_ensemble:let_last_follow()
  while self:leader() == self.last do
    self:kill(self.last)
    assert(self:leader(), "no leader")
    self:start_again(self.last)
    assert(self:serves(60), "the servers serve nobody")
  end
end

--- Cuts the last server off from the others: its connections to them are reset,
--- or nothing passes any more ("reset", "hold"), and there are no new ones.
--- False if it leads: then others have to reach it, and nothing was done.
function zk_ensemble:cut_off(how)
  if self:leader() == self.last then
    return false
  end
  for _, link in ipairs(self.links) do
    link:refuse(true)
    if how == "reset" then
      link:reset()
    else
      link:hold("both")
    end
  end
  self.apart = true
  return true
end

--- Ends that.
function zk_ensemble:join()
  self.apart = nil
  for _, link in ipairs(self.links) do
    link:refuse(false)
    link:discard()
    link:reset()
  end
end

--- Ends all that was done to them and has not been ended.
function zk_ensemble:mend()
  for id = 1, self.last do
    if self.killed[id] then
      self:start_again(id)
    elseif self.paused[id] then
      self:resume(id)
    end
  end
  if self.apart then
    self:join()
  end
end

--- True when each of the servers has committed a write of a bare client, which
--- is tried for so many seconds: "Mode: follower" does not prove that.
function zk_ensemble:serves(seconds)
  local left, again = {}, uv.new_timer()
  local function ask(id)
    left[id] = "asked"
    zk_client.start_write(self.urls[id], "/", "", 2, function(ok)
      left[id] = not ok and "ask" or nil
    end)
  end
  for id = 1, #self.urls do
    ask(id)
  end
  again:start(50, 50, function()
    for id, what in pairs(left) do
      if what == "ask" then
        ask(id)
      end
    end
  end)
  local served = pcall(loop.eventually, "three that commit", seconds, function()
    return not next(left)
  end)
  loop.close(again)
  return served
end

--- Paths of what the servers said.
function zk_ensemble:logs()
  local list = {}
  for _, one in ipairs(self.servers) do
    for _, path in ipairs(one:logs()) do
      list[#list + 1] = path
    end
  end
  return list
end

function zk_ensemble:stop()
  for _, link in ipairs(self.links) do
    link:stop()
  end
  self.servers:stop()
end

return zk_ensemble
