-- ZooKeeper for specs: its four-letter commands, so that assertions about the
-- server do not go through the code under test, and private servers (one, or an
-- ensemble) for specs that kill, pause or cut them off.
--
--   zk.stats()["zk_watch_count"]         -- of $DLOCK_TEST_ZOOKEEPER
--   local s = zk.start(); s.url; s:pause(); s:resume(); s:stop()
--   local e = zk.start_ensemble(3); e.url; e[1]:kill(); e:stop()

local uv = require "luv"
local loop = require "spec.support.loop"
local server = require "spec.support.server"

local zk = {}
local instance = {}
instance.__index = instance

local TIMEOUT = 10
-- log4j's binding is named before the others that Debian may have there.
local CLASS_PATH = "/usr/share/java/zookeeper.jar:"
  .. "/usr/share/java/slf4j-log4j12.jar:/usr/share/java/log4j-1.2.jar"
local MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
local LOGGING = [[
log4j.rootLogger=INFO, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} %-5p %C{1} %m%n
]]

local function first_port(url)
  url = url or os.getenv("DLOCK_TEST_ZOOKEEPER")
  assert(url, "no ZooKeeper was started (spec/support/shared.lua)")
  return tonumber(url:match(":(%d+)"))
end

--- The answer to a four-letter command ("srvr", "mntr", "dump", "cons",
--- "wchs", "wchp") from the (first) server of `url`; nil, message.
function zk.four(word, url, timeout)
  local tcp, state = uv.new_tcp(), { text = "" }
  tcp:connect("127.0.0.1", first_port(url), function(err)
    if err then
      state.err, state.done = err, true
      return
    end
    tcp:write(word)
    tcp:read_start(function(_, data)
      state.text = state.text .. (data or "")
      state.done = not data
    end)
  end)
  loop.wait(timeout or TIMEOUT, function()
    return state.done
  end)
  loop.close(tcp)
  if not state.done or state.err then
    return nil, state.err or "timeout"
  end
  return state.text
end

--- `mntr` as a table, numbers as numbers.
function zk.stats(url)
  local stats = {}
  for name, value in assert(zk.four("mntr", url)):gmatch("(%S+)\t([^\n]*)") do
    stats[name] = tonumber(value) or value
  end
  return stats
end

--- Sessions and their ephemeral nodes: { [session id] = { path, … } }.
function zk.ephemerals(url)
  local sessions, current = {}, nil
  local text = assert(zk.four("dump", url)):match("[Ee]phemerals.*") or ""
  for line in text:gmatch("[^\n]+") do
    local id = line:match("^(0x%x+):")
    if id then
      current = {}
      sessions[id] = current
    elseif current and line:match("^\t") then
      current[#current + 1] = line:sub(2)
    end
  end
  return sessions
end

-- A server that is starting may accept and never answer: ask soon again.
local function serving(url)
  return function()
    local text = zk.four("srvr", url, 0.25)
    return text and text:find("Mode: ", 1, true)
  end
end

local function write_config(self, opts, members)
  local lines = {
    "tickTime=" .. (opts.tick or 500),
    "initLimit=20",
    "syncLimit=" .. (opts.sync_limit or 10),
    "minSessionTimeout=" .. (opts.min_session or 1000),
    "maxClientCnxns=0",
    "dataDir=" .. self.dir,
    "clientPort=" .. self.port,
    "clientPortAddress=127.0.0.1",
    "4lw.commands.whitelist=*",
    "admin.enableServer=false",
    "extendedTypesEnabled=true",
    "standaloneEnabled=" .. tostring(not members),
  }
  for id, ports in pairs(members or {}) do
    lines[#lines + 1] = ("server.%d=127.0.0.1:%d:%d"):format(
      id, ports.peer, ports.election)
  end
  for name, value in pairs(opts.config or {}) do
    lines[#lines + 1] = name .. "=" .. tostring(value)
  end
  server.write_file(self.dir .. "/zoo.cfg", table.concat(lines, "\n") .. "\n")
  server.write_file(self.dir .. "/log4j.properties", LOGGING)
  server.write_file(self.dir .. "/myid", tostring(self.id or 1))
end

local function command_line(self, opts)
  return {
    "java", "-Xmx256m", "-Xshare:auto", "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC", "-XX:-UsePerfData",
    "-Dzookeeper.extendedTypesEnabled=true",
    "-Dzookeeper.forceSync=" .. (opts.force_sync and "yes" or "no"),
    "-Dzookeeper.sessionTimeoutCheck=true",
    "-Dznode.container.checkIntervalMs=" .. (opts.container_check or 60000),
    "-Dlog4j.configuration=file:" .. self.dir .. "/log4j.properties",
    "-cp", CLASS_PATH, MAIN, self.dir .. "/zoo.cfg",
  }
end

local function new_instance(dir, id)
  local self = setmetatable({ dir = dir }, instance)
  self.id, self.port = id, server.free_port()
  self.url = "zookeeper://127.0.0.1:" .. self.port
  return self
end

local function launch(self, ready)
  local log
  self.server, log = server.spawn(self.cmd, self.dir .. "/zookeeper.log",
    ready or serving(self.url), 60)
  self.pid = self.server and self.server.pid
  return self.server and self, log
end

--- Starts one private server. opts: tick (ms), min_session (ms), force_sync,
--- config (further zoo.cfg settings). Returns an object with url, pid, port,
--- dir, and stop, kill, pause, resume, start_again.
function zk.start(opts, dir)
  opts = opts or {}
  dir = dir or server.new_dir()
  return server.retry(function()
    local self = new_instance(dir)
    write_config(self, opts)
    self.cmd = command_line(self, opts)
    return launch(self)
  end)
end

local ensemble = {}
ensemble.__index = ensemble

local TAKEN = "Address already in use"

-- A member whose port is taken by now goes on trying for ever.
local function refused(self, last)
  for id = 1, last do
    local log = server.read_file(self[id].dir .. "/zookeeper.log")
    if log:find(TAKEN, 1, true) then
      return log
    end
  end
end

local function logs(self, last)
  local all = {}
  for id = 1, last do
    local log = server.read_file(self[id].dir .. "/zookeeper.log")
    log = log:gsub("[^\n]*srvr command[^\n]*\n", ""):sub(-1500)
    all[id] = "server " .. id .. ": " .. log
  end
  return table.concat(all, "\n")
end

-- They only serve together: all are started before any is waited for. Returns
-- whether they serve, else nil and what they said.
local function launch_some(self, first, last)
  for id = first, last do
    local member = self[id]
    local up, log = launch(member, function(text)
      return #text > 0
    end)
    if not up then
      return nil, log
    end
  end
  local again = uv.new_timer()
  again:start(100, 100, function() end)
  local id, log = first, nil
  local up = loop.wait(60, function()
    while id <= last and serving(self[id].url)() do
      id = id + 1
    end
    log = id <= last and refused(self, last)
    return id > last or log
  end)
  loop.close(again)
  return up and not log or nil, log or logs(self, last)
end

-- What the last member reads: the others' ports as opts.between gives them.
local function seen_through(members, between)
  local seen = {}
  for id, ports in ipairs(members) do
    seen[id] = { election = ports.election,
      peer = id < #members and between(ports.peer) or ports.peer }
  end
  return seen
end

local function new_ensemble(count, opts)
  local self, members, addresses = setmetatable({}, ensemble), {}, {}
  for id = 1, count do
    self[id] = new_instance(server.new_dir(), id)
    addresses[id] = "127.0.0.1:" .. self[id].port
    members[id] = { peer = server.free_port(), election = server.free_port() }
  end
  self.url = "zookeeper://" .. table.concat(addresses, ",")
  for id, member in ipairs(self) do
    write_config(member, opts, opts.between and id == #self
      and seen_through(members, opts.between) or members)
    member.cmd = command_line(member, opts)
  end
  return self
end

--- Starts `count` (3) servers that form an ensemble: an array of instances with
--- url (of all) and stop; ensemble:leader() is the number of the leader.
--- opts.between(port): the last one joins the others as a follower, and gets to
--- what they serve followers on by the port that this returns. Again,
--- with other ports, when one was taken meanwhile.
function zk.start_ensemble(count, opts)
  opts = opts or {}
  return server.retry(function()
    local self = new_ensemble(count or 3, opts)
    local alone = opts.between and #self - 1 or #self
    local up, log = launch_some(self, 1, alone)
    if up and alone < #self then
      up, log = launch_some(self, #self, #self)
    end
    if up then
      return self
    end
    self:stop()
    return nil, log
  end)
end

function ensemble:leader()
  for id, member in ipairs(self) do
    local text = zk.four("srvr", member.url, 2) or ""
    if text:find("Mode: leader", 1, true) then
      return id
    end
  end
end

function ensemble:stop()
  for _, member in ipairs(self) do
    member:stop()
  end
end

function instance:kill()
  return self.server:kill()
end

--- What it has said since its last start, and before.
function instance:logs()
  local list = { self.dir .. "/zookeeper.log" }
  for i = 1, self.starts or 0 do
    list[#list + 1] = list[1] .. "." .. i
  end
  return list
end

function instance:start_again()
  self.starts = (self.starts or 0) + 1
  os.rename(self.dir .. "/zookeeper.log", self.dir .. "/zookeeper.log."
    .. self.starts)
  local again, log = launch(self)
  assert(again, log)
end

function instance:pause()
  return self.server:pause()
end

function instance:resume()
  return self.server:resume()
end

--- Ends it and removes its directory. May be called again.
function instance:stop()
  if self.dir then
    if self.server then
      self.server:kill()
    end
    server.remove_dir(self.dir)
    self.dir = nil
  end
end

return zk
