-- Two MariaDB servers for specs; one replicates from the other by GTID.
-- Clients reach the primary by one address, as by a name or a proxy that
-- follows it.
--
--   local two = mysql_pair.start(); two.url; two:fail_over(); two:stop()
--   two:primary():wait_for_commits(true)   -- semi-synchronous, AFTER_SYNC
--
-- A primary that was lost begins anew without data and replicates all that was
-- ever written, since this machine need not have a program that copies.

local loop = require "spec.support.loop"
local members = require "spec.support.members"
local mysql = require "spec.support.mysql"
local proxy = require "spec.support.proxy"
local server = require "spec.support.server"

local pair = {}
pair.__index = pair
local member = setmetatable({}, { __index = mysql })
member.__index = member

-- Semi-synchronous commits wait as long as it takes, and not at first.
local CONF = [[
log_bin = bin
log_slave_updates = 1
relay_log = relay
relay_log_recovery = 1
binlog_format = ROW
sync_binlog = 0
read_only = 1
rpl_semi_sync_slave_enabled = 1
rpl_semi_sync_master_wait_point = AFTER_SYNC
rpl_semi_sync_master_timeout = 86400000
server_id = %d
]]

-- A server passes over what one of its own number has written.
local last_id = 0

local function new_conf()
  last_id = last_id + 1
  return CONF:format(last_id)
end

-- What SHOW SLAVE STATUS says of one thing.
local function status_of(self, name)
  local all = assert(self:sql("SHOW SLAVE STATUS\\G", "--column-names"))
  return assert(all:match("%f[%w_]" .. name .. ": ([^\n]*)"), all)
end

function member:is_primary()
  return self:sql "SELECT @@read_only" == "0"
end

--- Whether commits wait until the other one has them, before anybody sees them.
function member:wait_for_commits(wanted)
  assert(self:sql("SET GLOBAL rpl_semi_sync_master_enabled = "
    .. (wanted and 1 or 0)))
  if wanted then
    loop.eventually("a replica that answers", 20, function()
      return self:sql("SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'")
        :match("%d+$") == "1"
    end)
  end
end

--- Returns when a replica has all that the primary has now.
function member:catch_up(primary)
  local at = assert(primary:sql "SELECT @@gtid_binlog_pos")
  loop.eventually("the replica has all", 60, function()
    return self:sql(("SELECT MASTER_GTID_WAIT('%s', 5)"):format(at)) == "0"
  end)
end

--- A replica gets nothing more of what the primary commits.
function member:hear_no_more()
  assert(self:sql "STOP SLAVE IO_THREAD")
end

--- Becomes the primary, with all that it got, and has the pair's address.
function member:promote()
  assert(self:sql "STOP SLAVE IO_THREAD")
  local got = status_of(self, "Gtid_IO_Pos")
  loop.eventually("the replica has done what it got", 60, function()
    return self:sql(("SELECT MASTER_GTID_WAIT('%s', 5)"):format(got)) == "0"
  end)
  assert(self:sql "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0")
  self.pair.name:lead("127.0.0.1:" .. self.port)
end

--- Begins anew as a replica of another.
function member:follow(other)
  self:begin_anew(new_conf())
  assert(self:sql(([[CHANGE MASTER TO MASTER_HOST = '127.0.0.1',
    MASTER_PORT = %d, MASTER_USER = 'replica', MASTER_PASSWORD = '%s',
    MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos; START SLAVE]])
    :format(other.port, mysql.password)))
  self:catch_up(other)
end

local function start_all(opts)
  local self = setmetatable({ opts = opts }, pair)
  for i = 1, 2 do
    local one, log = mysql.start { conf = new_conf() }
    if not one then
      self:stop()
      return nil, log
    end
    one.pair = self
    self[i] = setmetatable(one, member)
  end
  self.name = proxy.start(self[1].url)
  self.url = self.name.url
  assert(self[1]:sql "SET GLOBAL read_only = 0")
  self[2]:follow(self[1])
  self[1]:wait_for_commits(opts.synchronous)
  return self
end

--- Starts a primary and a replica. opts: synchronous (a commit waits for it).
function pair.start(opts)
  return server.retry(function() return start_all(opts or {}) end)
end

function pair:stop()
  if self.name then self.name:stop() end
  for _, one in ipairs(self) do one:stop() end
end

members.define_pair(pair)

return pair
