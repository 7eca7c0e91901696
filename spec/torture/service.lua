-- Whether the servers serve, whatever dlock says: a client that has nothing of
-- dlock's (spec/support/zk_client.lua, or etcdctl) writes through each of them
-- again and again. Without it a stretch without faults would count as a calm
-- although the servers are busy with themselves; and if dlock gets no answer
-- while this one does, dlock is to blame.
--
--   local watch = service.new(urls); watch:served_since(time)
--   watch.silences --> { { server =, from =, to =, why = }, … }; watch:stop()
--
-- A silence begins when a write was sent that was refused, or not answered
-- within PATIENCE seconds, and ends when a later one was answered. One that
-- goes on has no `to`. Most writes are answered within milliseconds; the rest
-- of PATIENCE is for a busy machine.

local core = require "dlock.core"
local uv = require "luv"
local zk_client = require "spec.support.zk_client"

local service = {}
service.__index = service

local PATIENCE = 2
local GIVE_UP = 4 -- then another session is tried
local PAUSE = 0.5 -- between two writes through a server

local function answered(self, server, sent)
  local now, open = core.now(), self.open[server]
  if open then
    open.to = now
    self.open[server] = nil
  elseif now - sent > self.patience then
    table.insert(self.silences, { server = server, from = sent, to = now,
      why = "a slow answer" })
  end
  self.sent[server] = sent
end

local function refused(self, server, sent, message)
  if not self.open[server] then
    local silence = { server = server, from = sent, why = message }
    self.open[server] = silence
    table.insert(self.silences, silence)
  end
end

local function ask(self, server)
  local sent = core.now()
  local timeout = self.patience + GIVE_UP - PATIENCE
  self.write(self.urls[server], timeout,
    function(ok, message)
      if self.stopped then
        return
      elseif ok then
        answered(self, server, sent)
      else
        refused(self, server, sent, message)
      end
      local timer = uv.new_timer()
      timer:start(PAUSE * 1000, 0, function()
        timer:close()
        if not self.stopped then
          ask(self, server)
        end
      end)
    end)
end

local function on_zookeeper(url, seconds, done)
  zk_client.start_write(url, "/", "", seconds, done)
end

--- Begins to ask the servers (a list of URLs). It needs the event loop to run.
--- write(url, seconds, done): writes, then calls done(ok, message).
function service.new(urls, patience, write)
  local self = setmetatable({ urls = urls, sent = {}, open = {},
    silences = {}, patience = patience or PATIENCE,
    write = write or on_zookeeper }, service)
  for server = 1, #urls do
    ask(self, server)
  end
  return self
end

--- True when each server committed a write that was sent after that time.
function service:served_since(time)
  for server = 1, #self.urls do
    if (self.sent[server] or 0) < time then
      return false
    end
  end
  return true
end

function service:stop()
  self.stopped = true
end

return service
