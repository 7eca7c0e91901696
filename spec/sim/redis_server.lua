-- The server of redis_network.lua: the shipped scripts on a modelled Redis,
-- behind connections. It has bad times: it refuses for a while (it loads, a
-- script blocks it, it is a replica, it is full), denies subscriptions, stands
-- still and then does at once what came meanwhile, or starts again: with its
-- data, without, or with nothing but a counter that was saved a while ago; then
-- every connection is cut.

local MS = 1e6
local START = 1.7e15 -- its clock, in us

local BUSY =
  "BUSY Redis is busy running a script. You can only call SCRIPT KILL"

-- What it answers, and whether only commands that take memory get it.
local REFUSALS = {
  { "LOADING Redis is loading the dataset in memory" },
  { BUSY },
  { "READONLY You can't write against a read only replica." },
  { "MASTERDOWN Link with MASTER is down" },
  { "TRYAGAIN Multiple keys request during rehashing of slot" },
  { "OOM command not allowed when used memory > 'maxmemory'.",
    { take = true, try = true, join = true, refresh = true } },
  { "NOPERM this user has no permissions to run the 'eval' command",
    { take = true, try = true, join = true, refresh = true } },
}

local unpack = table.unpack or unpack

local function parse(bytes)
  local commands, at = {}, 1
  while at <= #bytes do
    local count, after = bytes:match("^%*(%d+)\r\n()", at)
    local list = {}
    for i = 1, tonumber(count) do
      local size, from = bytes:match("^%$(%d+)\r\n()", after)
      list[i] = bytes:sub(from, from + size - 1)
      after = from + size + 2
    end
    commands[#commands + 1], at = list, after
  end
  return commands
end

-- As people want to read it: tokens by a few of their digits.
local function short(value)
  if type(value) ~= "table" then
    return (tostring(value):gsub("(%x%x%x%x)%x+:(%x%x%x%x)%x+:me", "%2/%1"))
  end
  local list = { value.ok or value.err }
  for i, item in ipairs(value) do
    list[i] = short(item)
  end
  return table.concat(list, " ")
end

-- Adds them to the class. faulty: until when there are bad times.
return function(network, faulty)
  network.START = START

  function network:set_server_time()
    self.db.us = START + math.floor(self.now / 1000 * self.rate)
  end

  function network:tell_script(script, arguments, reply)
    if self.telling then
      self:say("    server: %s %s: %s", script, short(arguments),
        short(reply):sub(1, 60))
    end
  end

  function network:refuses(what)
    local r = self.refusal
    if r and self.now < r.ends and (not r.only or r.only[what]) then
      return { err = r.text }
    elseif self.now < faulty and self:chance(0.03) then
      return { err = BUSY } -- and the next one is not
    end
  end

  function network:script(list)
    local count, keys, arguments = tonumber(list[3]), {}, {}
    for i = 4, #list do
      local to = i < 4 + count and keys or arguments
      to[#to + 1] = list[i]
    end
    local name = assert(self.names[list[2]], "an unknown script")
    local script = name:gsub("_shard$", "")
    local reply = self:refuses(script)
    if not reply and list[1] == "EVALSHA" and self.forgotten[name] then
      reply = { err = "NOSCRIPT No matching script." }
    elseif not reply then
      self.forgotten[name] = nil
      if script == "break" then
        self:excuse()
      end
      local before = #self.db.published
      reply = self.db:eval(name, keys, arguments)
      self:check_given(script, reply, before)
      self:was_run(script, arguments, reply)
    end
    self:tell_script(script, arguments, reply)
    return reply
  end

  function network:command(list)
    if list[1] == "EVAL" or list[1] == "EVALSHA" then
      return self:script(list)
    end
    return self:refuses(list[1]) or self.db:call(unpack(list))
  end

  function network:execute(bytes, wire)
    local replies = {}
    self.caller = wire.node
    self:set_server_time()
    for _, list in ipairs(parse(bytes)) do
      replies[#replies + 1] = self:command(list)
    end
    self:publish(wire.server)
    return replies
  end

  function network:publish(server)
    local published = self.db.published
    self.db.published = {}
    for _, p in ipairs(published) do
      for _, node in ipairs(self.nodes) do
        for _, wire in ipairs(node.channel == p.channel and not node.gone
            and self:wires(node) or {}) do
          local hears = not p.unheard
          if wire.elsewhere then hears = p.replicated end
          if hears and wire.subscribed and wire.server == server then
            self:send_message(wire, p.text)
          end
        end
      end
    end
  end

  -- Here, or at a replica for some time: its client finds that out, or is cut.
  function network:listen(wire)
    local subscription = wire.subscription
    wire.elsewhere = not self:healthy() and self:chance(0.1)
    self:listeners(wire, 1, wire.elsewhere)
    if not wire.elsewhere then return end
    self:say("%d listens at a replica", wire.node.n)
    self:at(math.min(self.now + self:between(0, 8000) * MS, faulty), function()
      if subscription == wire.subscription and not wire.node.gone then
        self:cut_subscription(wire, 0)
      end
    end)
  end

  -- elsewhere: at a replica, where it does not count.
  function network:listeners(wire, change, elsewhere)
    local listeners = elsewhere and self.db.elsewhere or self.db.listeners
    local channel = wire.node.channel
    listeners[channel] = math.max((listeners[channel] or 0) + change, 0)
  end

  -- ---- bad times ----

  -- Nobody gets a connection that is of any use.
  function network:down(server)
    local r = self.refusal
    return self:stands_still(server) or r and self.now < r.ends and not r.only
  end

  function network:stands_still(server)
    return self.now < (server.still or 0)
  end

  function network:stand_still(server, span)
    if self:stands_still(server) then
      return -- what came meanwhile keeps its order
    end
    server.still = math.min(self.now + span, faulty)
    self:say("server: stands still until %.1f", server.still / MS)
  end

  function network:denies()
    return self.now < (self.denying or 0)
  end

  function network:refuse(kind, span)
    self.refusal = { text = kind[1], only = kind[2],
      ends = math.min(self.now + span, faulty) }
    self:say("server: %s until %.1f", kind[1]:match("%S+"),
      self.refusal.ends / MS)
  end

  function network:deny(span)
    self.denying = math.min(self.now + span, faulty)
    self:say("server: no subscription until %.1f", self.denying / MS)
  end

  -- The counters, for a restart from what was saved when nobody held.
  function network:save()
    self.saved = {}
    for _, name in ipairs(self.db:names()) do
      local f = self.db:find(name)
      if name:find(":f:", 1, true) then
        self.saved[name] = { kind = f.kind, value = f.value, ends = f.ends,
          at = {} }
      end
    end
  end

  -- left: its data; nil: as they were.
  function network:restart(left)
    self:say("the server starts again%s", left and (next(left)
      and ", with an old counter" or ", without its data") or "")
    if left then
      self:set_server_time()
      self:excuse()
      self.db.keys = left
      self.saved = nil
    end
    self.server.restarts = (self.server.restarts or 0) + 1
    for _, node in ipairs(self.nodes) do
      for _, wire in ipairs(node.gone and {} or self:wires(node)) do
        wire.dead[wire.epoch] = true
        self:cut_subscription(wire, 0)
        self:cut(wire)
      end
    end
    self:refuse(REFUSALS[1], self:between(1, 600) * MS)
    if self:chance(0.3) then
      self:deny(self:between(100, 1500) * MS)
    end
    if self:chance(0.5) then
      self:at(self.refusal.ends, function()
        self:refuse(REFUSALS[#REFUSALS], self:between(1, 500) * MS)
      end)
    end
  end

  function network:server_trouble()
    if self.now == 1 and self:chance(0.3) then
      self:refuse(REFUSALS[#REFUSALS], 300 * MS)
    end
    self:at(self.now + self:between(0, 5000) * MS, function()
      if self:healthy() then
        return
      end
      local what = self.r:next()
      if self:chance(0.5) then
        self:save()
      end
      if what < 0.45 then
        self:refuse(REFUSALS[1 + math.floor(self.r:next() * #REFUSALS)],
          self:between(1, 800) * MS)
      elseif what < 0.62 then
        self:deny(self:between(10, 1500) * MS)
      elseif what < 0.77 then
        local empty, old = self:chance(0.3), self:chance(0.3)
        self:restart(old and self.saved or empty and {} or nil)
      elseif what < 0.85 then
        self:stand_still(self.server, self:between(500, 3000) * MS)
      else
        self:say("server: SCRIPT FLUSH")
        for name in pairs(self.db.scripts) do
          self.forgotten[name] = true
        end
      end
      self:server_trouble()
    end)
  end
end
