-- Those who want the lock on the network of redis_network.lua, and what must
-- hold for them. They do what the engine does with the store: a hold that came
-- too late is none, renewals come at a third of the ttl, a release is given
-- up after two seconds, or the hold goes to the next one of the same process,
-- with a fence that was set aside for that.

local MS, SEC = 1e6, 1e9
local KEY = "lock"
-- A dead holder's ttl, three clients before us, a silent second or two.
local BOUND = 9 * SEC
-- What was begun before takes a moment to be noticed.
local GRACE = 4 * SEC

local function wrong(...)
  error({ wrong = string.format(...) }, 0)
end

-- Adds them to the class. faulty, healthy: until when the network is bad, and
-- until when anybody asks for anything.
return function(network, faulty, healthy)
  function network:agent(node)
    local agent = { node = node,
      ttl = node.mortal and self:between(0.3, 3) * SEC or 30 * SEC }
    node.agents = node.agents or {}
    node.agents[#node.agents + 1] = agent
    self.agents[#self.agents + 1] = agent
    self:think(agent)
  end

  function network:think(agent)
    if self.now > healthy then
      return
    end
    self:at(self.now + self:between(0, 300) * MS, function()
      self:to(agent.node, function()
        self:ask(agent)
      end)
    end)
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
    if self.now > healthy then
      return
    end
    agent.units, agent.cap = self:want()
    agent.since = self.now
    local wait = self:chance(0.85)
    agent.lost = nil
    agent.id = machine:acquire(KEY, agent.ttl, agent.units, agent.cap, wait,
      agent.units == 0 and agent.node.n < 3 and 3 or 0)
    agent.node[agent.id] = agent
    local id = agent.id
    local patience = not wait and 2
      or not self:healthy() and self:chance(0.3) and self:between(0, 3) or 30
    self:at(self.now + patience * SEC, function()
      self:to(agent.node, function()
        if agent.id == id and not agent.held then
          machine:cancel(id)
        end
      end)
    end)
  end

  -- What the engine does: a hold that came too late is none.
  function network:granted(agent, event)
    local id = event.id
    agent.held = true
    agent.deadline = self.client.deadline(event.sent, agent.ttl)
    if event.claim > 0 then
      agent.deadline = math.min(agent.deadline, event.claim)
      agent.node.machine:renew(id)
    end
    agent.spare, agent.sent = event.spare, event.sent
    agent.sure = event.claim == 0
    if self:healthy() then
      self:check_patience(agent)
    end
    agent.renews = self:chance(0.85)
    self:hold(agent, id, event.fence)
  end

  function network:hold(agent, id, fence)
    agent.fence = fence
    self:say("%d holds, fence %.0f, until %.1f", agent.node.n, fence,
      agent.deadline / MS)
    if agent.deadline > self.now then
      self:believe(agent, fence)
    end
    local span = self:between(1, 300) * MS
    if not self:healthy() and self:chance(0.2) then
      span = self:between(0.3, 5) * SEC
    end
    if agent.renews and agent.sure then
      self:renew_later(agent, id)
    end
    self:at(self.now + span, function()
      self:to(agent.node, function()
        self:release(agent, id)
      end)
    end)
  end

  function network:release(agent, id)
    if agent.id ~= id or agent.releasing then
      return
    end
    self.beliefs[agent] = nil
    if self:hand_over(agent, id) then
      return
    end
    agent.releasing = true
    agent.node.machine:release(id)
    self:at(self.now + 2 * SEC, function()
      self:to(agent.node, function()
        if agent.id == id and agent.releasing then
          agent.node.machine:cancel(id)
        end
      end)
    end)
  end

  -- As the engine does it: the next one of this process has it at once.
  function network:hand_over(agent, id)
    local may = agent.spare > 0 and agent.sure and not agent.lost
      and self.now < math.min(agent.deadline, agent.sent + agent.ttl / 3)
    local new = may and agent.node.machine:hand_over(id)
    if not new then
      return false
    end
    agent.node[id], agent.node[new] = nil, agent
    agent.id, agent.spare = new, agent.spare - 1
    self:hold(agent, new, agent.fence + 1)
    return true
  end

  function network:renew_later(agent, id, soon)
    local pause = soon and 20 * MS or agent.ttl / 3
    self:at(self.now + pause, function()
      self:to(agent.node, function()
        if agent.id == id and not agent.releasing and agent.held then
          agent.node.machine:renew(id)
        end
      end)
    end)
  end

  function network:renewed(agent, event)
    local belief = self.beliefs[agent]
    agent.sure, agent.sent = true, event.sent
    if belief and belief.deadline > self.now then
      belief.deadline = math.max(belief.deadline,
        self.client.deadline(event.sent, agent.ttl))
      agent.deadline = belief.deadline
    end
    if agent.renews then
      self:renew_later(agent, event.id)
    end
  end

  function network:happened(node, event)
    local agent = node[event.id]
    if not agent or agent.id ~= event.id then
      return
    elseif event.kind == "acquired" and event.code == "ok" then
      self:granted(agent, event)
    elseif event.kind == "acquired" or event.kind == "released" then
      if event.kind == "acquired" and event.code == "timeout"
          and self:healthy() then
        self:check_patience(agent)
      end
      self:say("%d %s: %s", node.n, event.kind, event.code)
      node[event.id] = nil
      agent.id, agent.held, agent.releasing, agent.since = nil, nil, nil, nil
      self:think(agent)
    elseif event.kind == "renewed" then
      self:renewed(agent, event)
    elseif event.kind == "failed" then
      self:renew_later(agent, event.id, true)
    elseif event.kind == "lost" then
      self:say("%d has lost it", node.n)
      self.beliefs[agent] = nil
      agent.lost = true
    end
  end

  -- ---- what must hold ----

  function network:believe(agent, fence)
    local units, worst = agent.units, nil
    for other, belief in pairs(self.beliefs) do
      if belief.deadline > self.now then
        units = units + other.units
        if other.units == 0 or agent.units == 0 then
          worst = other
        end
      end
    end
    if worst then
      wrong("%d and %d both believe to hold", agent.node.n, worst.node.n)
    elseif agent.cap > 0 and units > agent.cap then
      wrong("%d units of %d are believed to be held", units, agent.cap)
    end
    if agent.units == 0 or self.exclusive_fence then
      if fence <= (agent.units == 0 and self.fence or self.exclusive_fence) then
        wrong("%d's fence %.0f is not above an older one", agent.node.n, fence)
      end
    end
    self.fence = math.max(self.fence, fence)
    if agent.units == 0 then
      self.exclusive_fence = fence
    end
    self.beliefs[agent] = { deadline = agent.deadline }
  end

  -- Nobody waits for long once the network is well.
  function network:check_patience(agent)
    local since = math.max(agent.since, faulty + GRACE)
    if self.now - since > BOUND then
      wrong("%d waited %.1f s on a network that is well", agent.node.n,
        (self.now - since) / SEC)
    end
  end

  function network:check_end()
    for _, agent in ipairs(self.agents) do
      if agent.id and not agent.gone then
        wrong("%d is still at it", agent.node.n)
      end
    end
    self:set_server_time()
    local left = self.db:names()
    for _, name in ipairs(left) do
      if not name:find(":f:", 1, true) or not self.db:find(name).ends then
        wrong("%s is left on the server", name)
      end
    end
  end

  -- Whoever still waits when the network has been well for long is stuck.
  function network:check_stuck()
    for _, agent in ipairs(self.agents) do
      if agent.since and not agent.held and not agent.gone then
        self:check_patience(agent)
      end
    end
  end
end
