-- Those who want the lock on the network of redis_network.lua: what programs
-- do with a store and its leases, at random. They wait, or try; they give up
-- early; while they hold they extend, for more or for less time, write under
-- guard, downgrade, or detach, and somebody attaches what was detached, or the
-- detach was interrupted and nobody has its string; they release or let the
-- collector do it. Now and then one is an administrator, who breaks the lock,
-- or asks the holders to let go.

local MS, SEC = 1e6, 1e9
local KEY = "lock"
local IO_TIMEOUT = 2 * SEC -- as redis_host.c has it

-- What holders do, by weight.
local DEEDS = { { 8, "extend" }, { 4, "guard" }, { 5, "downgrade" },
  { 4, "detach" }, { 2, "nothing" } }

-- Adds them to the class. healthy: until when anybody asks for anything.
return function(network, healthy)
  -- guest: it comes for one lease only.
  function network:agent(node, guest)
    local agent = { node = node, ttl = node.ttl, guest = guest }
    self.agents[#self.agents + 1] = agent
    if not guest then
      self:think(agent)
    end
    return agent
  end

  function network:forget(agent)
    for i, one in ipairs(self.agents) do
      if one == agent then
        return table.remove(self.agents, i)
      end
    end
  end

  -- Has the agent do something later, if it lives and `run` still applies.
  function network:later(agent, span, run)
    self:at(self.now + span, function()
      self:to(agent.node, run)
    end)
  end

  function network:think(agent)
    if agent.guest then
      return self:forget(agent)
    elseif self.now > healthy then
      return
    end
    local most = self:healthy() and 1500 or 300
    self:later(agent, self:between(0, most) * MS, function()
      if self.now <= healthy then
        self:begin(agent)
      end
    end)
  end

  -- Remembers what was asked for and who is to hear of it.
  function network:note(agent, id, what, patience)
    agent.node.asked[id] = { agent = agent, what = what, id = id, at = self.now,
      due = self.now + (patience or IO_TIMEOUT) + IO_TIMEOUT }
    return agent.node.asked[id]
  end

  function network:attach(agent, parcel)
    self:say("%d attaches", agent.node.n)
    agent.renews = parcel.renews
    self.detached[parcel.token] = agent.node
    self:note(agent, agent.node.machine:attach(parcel.text, parcel.renews),
      "attach").parcel = parcel
  end

  -- What was detached goes to another process at once, or to whoever comes.
  function network:hand_on(parcel, from)
    local node = self.nodes[1 + math.floor(self.r:next() * #self.nodes)]
    if node == from or node.gone then
      self.parcels[#self.parcels + 1] = parcel
      return
    end
    for _ = 1, self:chance(0.3) and 2 or 1 do -- one of two may have it
      local guest = self:agent(node, true)
      self:later(guest, self:between(0, 2) * MS, function()
        self:attach(guest, parcel)
      end)
    end
  end

  function network:begin(agent)
    local machine, choice = agent.node.machine, self.r:next()
    if self.parcels[1] and choice < 0.7 then
      self:attach(agent, table.remove(self.parcels))
    elseif choice > 0.96 and not self:healthy() then
      local what = choice > 0.98 and "break" or "revoke"
      self:say("%d: %s", agent.node.n, what)
      self:note(agent, machine:admin(what, KEY), what)
    else
      self:ask(agent)
    end
  end

  function network:want()
    if self.kind == 1 then
      return self:chance(0.3) and 0 or 1, 0
    elseif self.kind == 2 then
      return self:chance(0.5) and 1 or 2, 3
    end
    return 0, 0
  end

  function network:ask(agent)
    local machine = agent.node.machine
    agent.units, agent.cap = self:want()
    agent.since, agent.ttl = self.now, agent.node.ttl
    agent.renews = self:chance(0.85)
    local wait = self:chance(0.85)
    local patience = not wait and IO_TIMEOUT
      or not self:healthy() and self:chance(0.3) and self:between(0, 3) * SEC
      or 30 * SEC
    local handoffs = agent.units == 0 and agent.node.resident
      and self:chance(0.5) and 3 or 0
    agent.jumps = handoffs > 0
    agent.max_hold = self:chance(0.3)
      and math.floor(self:between(0.1, 4) * SEC) or nil
    local id = machine:acquire(KEY, agent.ttl, agent.units, agent.cap, wait,
      agent.renews, handoffs, patience, agent.max_hold)
    self:note(agent, id, "acquire", patience)
    if not self:healthy() and self:chance(0.1) then
      self:later(agent, self:between(0, 1000) * MS, function()
        if agent.node.asked[id] then
          self:say("%d cancels", agent.node.n)
          machine:cancel(id)
        end
      end)
    end
  end

  -- ---- holding ----

  function network:granted(agent, event, attached)
    local fence = event.fence
    agent.lease, agent.fence, agent.token = event.id, fence, event.token
    agent.downgraded, agent.shortest = nil, nil
    agent.extends, agent.extended, agent.lingers = 0, 0, false
    self:say("%d holds, fence %.0f", agent.node.n, fence)
    self:check_fence(agent, fence, attached)
    agent.limit = agent.max_hold and self.now + agent.max_hold
    local span = self:chance(0.3) and 0 or self:between(1, 300) * MS
    if span > 0 and not self:healthy() and self:chance(0.3) then
      span = self:between(0.3, 5) * SEC
    end
    agent.rest = self.now + span
    self:live_on(agent)
  end

  -- The next thing that a holder does.
  function network:live_on(agent)
    local id = agent.lease
    local left = math.max(agent.rest - self.now, 0)
    self:later(agent, self:between(0, 1) * left, function()
      if agent.lease ~= id or agent.leaving then
        return
      elseif self.now >= agent.rest - MS or self:healthy() then
        return self:leave(agent)
      end
      self:deed(agent)
      if agent.lease == id then
        self:live_on(agent)
      end
    end)
  end

  function network:deed(agent)
    local at = self:between(0, 23)
    for _, d in ipairs(DEEDS) do
      at = at - d[1]
      if at < 0 then
        if self[d[2]] then
          self[d[2]](self, agent)
        end
        return
      end
    end
  end

  function network:request(agent, what, ...)
    local id = agent.node.machine:ask(agent.lease, what, ...)
    local asked = self:note(agent, id, what)
    asked.lease = agent.lease
    return asked
  end

  function network:extend(agent, ttl)
    local most = agent.node.mortal and 3 or 30
    ttl = math.floor(ttl or most * (0.1 / most) ^ self.r:next() * SEC)
    self:say("%d extends by %.1f ms", agent.node.n, ttl / MS)
    agent.extends, agent.lingers = agent.extends + 1, self.lingers
    local ends = self.client.deadline(self.now, ttl)
    agent.shortest = math.min(agent.shortest or ends, ends)
    self:request(agent, "extend", ttl).ttl = ttl
    if self:chance(0.5) then -- as long as it now may
      agent.rest = math.max(agent.rest,
        self.now + math.min(ttl, 4 * SEC) * self:between(0.5, 1))
    end
  end

  function network:guard(agent)
    self.writes = self.writes + 1
    local number = tostring(self.writes)
    self:request(agent, "guard", "SET", "guarded",
      ("%.0f %s"):format(agent.fence, number), "PX", "5000").number = number
  end

  function network:downgrade(agent)
    if agent.units == 0 then
      self:say("%d downgrades", agent.node.n)
      agent.downgraded = true -- from now on, or never
      self:request(agent, "downgrade")
    end
  end

  -- How long the lease may stay on the server when nobody has it any more.
  local function longest(agent)
    local _, _, _, ttl = agent.node.machine:held(agent.lease)
    for _, asked in pairs(agent.node.asked) do
      local extends = asked.lease == agent.lease and asked.agent == agent
      ttl = extends and math.max(ttl or 0, asked.ttl or 0) or ttl
    end
    return ttl or math.huge
  end

  -- A detach that is interrupted, or whose request was killed: nobody gets the
  -- string. The lease must neither be renewed from then on nor stay.
  local function drop_detach(self, agent)
    local machine = agent.node.machine
    self:say("%d detaches, and drops the string", agent.node.n)
    agent.leaving = true
    local id, token = machine:ask(agent.lease, "detach", true), agent.token
    self.detached[token] = agent.node
    local span = self:chance(0.3) and 0 or self:between(0, 500) * MS
    self:later(agent, span, function()
      machine:forget(id)
      self.detached[token] = nil
      self:over(agent)
    end)
  end

  -- Only what ends soon if it is lost on the way. Often the lease is extended
  -- just before.
  function network:detach(agent)
    if self:chance(0.7) then
      self:extend(agent, agent.node.ttl * self:between(0.2, 0.8))
    end
    if self:chance(0.2) then
      drop_detach(self, agent)
    elseif longest(agent) <= 3 * SEC then
      self:say("%d detaches", agent.node.n)
      agent.leaving = true
      self:request(agent, "detach")
    end
  end

  function network:leave(agent)
    agent.leaving = true
    if self:chance(0.1) then
      self:say("%d's lease is collected", agent.node.n)
      return self:over(agent)
    end
    self:request(agent, "release")
  end

  function network:over(agent)
    agent.node.machine:forget(agent.lease)
    agent.lease, agent.leaving = nil, nil
    self:think(agent)
  end

  -- ---- what comes of it ----

  local heard = {}

  function heard.acquire(self, agent, event)
    if self:healthy() and (event.fence or event.code == "timeout") then
      self:check_patience(agent)
    end
    if event.fence then
      self:check_turn(agent, event.token, agent.since)
    end
    agent.since = nil
    if event.fence then
      self:granted(agent, event)
    else
      self:think(agent)
    end
  end

  function heard.attach(self, agent, event, asked)
    local parcel = asked.parcel
    if event.fence then
      self:check_attached(parcel)
      agent.units, agent.max_hold = parcel.units, nil
      self:granted(agent, event, true)
      agent.downgraded = parcel.downgraded
    else
      if event.code == "unavailable" and self:chance(0.5) then
        self.parcels[#self.parcels + 1] = parcel -- it may be good still
      end
      self:think(agent)
    end
  end

  -- Until the last of them succeeds, or a renewal after them, the shortest time
  -- counts. What was told to be unavailable goes on, and may yet be done: with
  -- what was sent after it was asked for.
  function heard.extend(_, agent, event, asked)
    agent.extends = agent.extends - 1
    agent.extended = event.code ~= "ok" and math.floor(asked.at)
      or agent.extends == 0 and 0 or agent.extended
  end

  function heard.downgrade()
  end

  function heard.detach(self, agent, event)
    if event.code == "ok" then
      self:check_detached(agent)
      local parcel = { text = event.text, token = agent.token,
        fence = agent.fence, units = agent.units, renews = agent.renews,
        downgraded = agent.downgraded }
      self:hand_on(parcel, agent.node)
      self:over(agent)
    else
      self:leave(agent)
    end
  end

  function heard.release(self, agent, event)
    self.released[agent.fence] = event.code == "ok"
    self:over(agent)
  end

  heard["break"] = function(self, agent)
    self:think(agent)
  end
  heard.revoke = heard["break"]

  function network:happened(node, event)
    local asked = assert(node.asked[event.id], "who asked for that?")
    node.asked[event.id] = nil
    local agent = asked.agent
    self:say("%d %s: %s", node.n, asked.what, event.code)
    if asked.number then
      self:check_write(agent, asked.number, event.code)
      local ours = asked.lease == agent.lease and not agent.leaving
      if event.code ~= "ok" and ours and self:chance(0.5) then
        self:leave(agent) -- it has come to nothing
      end
    elseif not asked.lease or asked.lease == agent.lease then
      heard[asked.what](self, agent, event, asked)
    end -- else: it was asked of a lease that is over
  end
end
