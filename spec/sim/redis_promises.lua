-- What must hold for those on the network of redis_network.lua.

local MS, SEC = 1e6, 1e9
-- A dead holder's ttl, three clients before us, a silent second or two.
local BOUND = 9 * SEC
-- What was begun before takes a moment to be noticed.
local GRACE = 4 * SEC
-- Longer is no lease.
local LONGEST = 30 * SEC

-- A token's length: this owner's name is "me".
local TOKEN = 52

local function wrong(...)
  error({ wrong = string.format(...) }, 0)
end

-- Adds them to the class. faulty: until when the network is bad.
return function(network, faulty)
  -- Whatever is held now is taken away by force: by a break, or because the
  -- server lost its data. Its holders may believe in it until they are told,
  -- for their ttl at the most.
  function network:excuse()
    local counter
    for _, name in ipairs(self.db:names()) do
      if name:find(":f:", 1, true) then
        counter = tonumber(self.db:find(name).value)
      end
    end
    local last = self.excused[#self.excused]
    self.excused[#self.excused + 1] = { at = self.now,
      fence = math.max(counter or 0, self.fence, last and last.fence or 0) }
  end

  -- When the hold of this fence was taken away, or nil.
  local function taken_away(self, fence)
    for _, e in ipairs(self.excused) do
      if fence <= e.fence then
        return e.at
      end
    end
  end

  -- What the server gives rises, whatever it forgot in between: fences in the
  -- order in which a script gave them.
  local function given_by_server(self, fences)
    table.sort(fences)
    for _, fence in ipairs(fences) do
      if fence <= self.newest then
        wrong("the server gives the fence %.0f after %.0f", fence, self.newest)
      end
      self.newest = fence
    end
  end

  -- A script was run; before: so many messages had been published.
  function network:check_given(script, reply, before)
    local fences, spare = {}, 0
    for i = before + 1, #self.db.published do
      fences[#fences + 1] =
        tonumber(self.db.published[i].text:match("^g (%d+) "))
    end
    if type(reply) == "table" and reply[1] == "got" then
      fences[#fences + 1], spare = reply[2], reply[3] or 0
    elseif script == "take" and type(reply) == "number" then
      fences[1] = reply
    end
    given_by_server(self, fences)
    self.newest = self.newest + spare
  end

  -- A lease that a hand-off, an acquire or an attach gave.
  function network:check_fence(agent, fence, attached)
    if attached then
      return
    elseif self.given[fence] then
      wrong("%d is given the fence %.0f, which another one has", agent.node.n,
        fence)
    end
    self.given[fence] = true
    local over = agent.units == 0 and self.fence or self.exclusive_fence
    if fence <= over and not taken_away(self, fence) then
      wrong("%d's fence %.0f is not above an older one", agent.node.n, fence)
    end
    self.fence = math.max(self.fence, fence)
    if agent.units == 0 then
      self.exclusive_fence = math.max(self.exclusive_fence, fence)
    end
  end

  -- Until when the server keeps a token, by our clock, and whether it shares;
  -- or nil. In the very millisecond of its end a key still stands.
  local function kept(self, token)
    local lock, holders = self.db:find("lock"), nil
    if not lock then
      return
    end
    local ends, shares = lock.ends, lock.value ~= token
    if shares then
      for _, name in ipairs(self.db:names()) do
        holders = name:find(":h:", 1, true) and self.db:find(name) or holders
      end
      local item = holders and holders.at[token]
      ends = item and item.score
    end
    return ends and ((ends + 1) * 1000 - self.START) / self.rate * 1000, shares
  end

  -- What is believed is what the server says, and no longer than that. But an
  -- extension that lingers in a connection which may not be ended comes behind
  -- a longer one: the fence shows that (security.md). False: so it was.
  local function check_kept(self, agent, ends)
    self:set_server_time()
    local most, shares = kept(self, agent.token)
    if agent.lingers and (not most or most < ends) then
      return false
    elseif not most or most < ends then
      wrong("%d believes in %.1f ms more than the server", agent.node.n,
        (ends - (most or self.now)) / MS)
    elseif shares ~= (agent.units > 0 or agent.downgraded == true) then
      local downgrading = agent.downgraded and not shares
      if not downgrading then
        wrong("%d believes to be alone, and it shares", agent.node.n)
      end
    end
    return true
  end

  -- What an agent believes: nil, or until when, its units, and their number.
  local function belief(self, agent)
    local id = agent.lease
    if not id or agent.node.gone then
      return
    end
    local ends, units, cap, _, sent = agent.node.machine:held(id)
    if not ends or ends <= self.now then
      return
    end
    local since = taken_away(self, agent.fence)
    if since then
      if ends > since + LONGEST then
        wrong("%d still believes in what was taken away", agent.node.n)
      end
      return
    end
    if agent.extends == 0 and sent >= agent.extended then
      agent.shortest = nil
    elseif agent.shortest and ends > agent.shortest then
      wrong("%d asked for less time and believes in more", agent.node.n)
    end
    local by = agent.limit and ends - agent.limit or 0
    if by > 2 * MS then
      wrong("%d believes in %.1f ms more than max_hold", agent.node.n, by / MS)
    end
    if agent.downgraded then
      units, cap = 1, 0
    end
    return ends, units, cap
  end

  -- After each turn of anybody: who holds, by the holders' own clocks.
  function network:check_holders()
    local total, limit, count, alone = 0, 0, 0, nil
    for _, agent in ipairs(self.agents) do
      local ends, units, cap = belief(self, agent)
      if ends and check_kept(self, agent, ends) then
        count, total = count + 1, total + units
        limit = math.max(limit, cap)
        alone = units == 0 and agent or alone
      end
    end
    if alone and count > 1 then
      wrong("%d believes to hold alone, and %d do", alone.node.n, count)
    elseif limit > 0 and total > limit then
      wrong("%d units of %d are believed to be held", total, limit)
    end
  end

  -- Order of service: no waiter gets a lock by a local hand-off before a waiter
  -- of another process who was in the queue before it asked. (The
  -- server's clock may be a little slower than his.)
  function network:check_turn(agent, token, since)
    local before = self.holding[token]
    self.holding[token] = true
    if not before or agent.jumps then
      return
    end
    for _, name in ipairs(self.db:names()) do
      for _, item in ipairs(name:find(":q:", 1, true)
          and self.db:find(name).list or {}) do
        local waited = since - (self.queued[item.member] or since)
        if waited > 0.01 * (self.now - since + waited) then
          wrong("%d came %.1f ms after one of the queue and has it before",
            agent.node.n, waited / MS)
        end
      end
    end
  end

  -- A guarded write carries its lease's fence and a number of its own.
  local function was_written(self, arguments)
    local fence, number = arguments[4]:match("^(%d+) (%d+)$")
    fence = tonumber(fence)
    if self.written[number] then
      wrong("a guarded write is done twice")
    elseif self.released[fence] then
      wrong("a guarded write of fence %.0f, which was released", fence)
    elseif self.kind == 0 and fence < self.guarded then
      wrong("a guarded write of fence %.0f after one of %.0f", fence,
        self.guarded)
    end
    self.written[number], self.guarded = true, math.max(fence, self.guarded)
  end

  -- The server ran a script.
  function network:was_run(script, arguments, reply)
    local left = script == "release" and reply == 1
      or script == "leave" and (reply == 1 or reply[1] == 1)
    if type(reply) == "table" and reply[1] == "wait" then
      self.queued[arguments[1]] = self.queued[arguments[1]] or self.now
    end
    if script == "guard" and reply[1] == "done" then
      was_written(self, arguments)
    elseif left then
      local whose = self.detached[arguments[1]]
      if whose and whose ~= self.caller then
        wrong("a lease is released that has been detached")
      end
      self.left[arguments[1]] = true
    end
  end

  -- From now on it is nobody's, until a node attaches it.
  function network:check_detached(agent)
    if self.left[agent.token] then
      wrong("a lease is detached that has been released")
    end
    self.detached[agent.token] = "nobody"
  end

  -- A string is good for one.
  function network:check_attached(parcel)
    if parcel.taken then
      wrong("what was detached is attached twice")
    end
    parcel.taken = true
  end

  function network:check_write(agent, number, code)
    local done = self.written[number] or false
    if code == "ok" and not done or code == "lost" and done then
      wrong("a guarded write of %d says %s and was%s done", agent.node.n, code,
        done and "" or " not")
    end
  end

  -- Nobody waits for long once the network is well.
  function network:check_patience(agent)
    local since = math.max(agent.since, faulty + GRACE)
    if self.now - since > BOUND then
      wrong("%d waited %.1f s on a network that is well", agent.node.n,
        (self.now - since) / SEC)
    end
  end

  -- Each request is told of in time. Whoever stood still has to try first.
  function network:check_answered()
    for _, node in ipairs(self.nodes) do
      local slept = (node.stopped or 0) + 2 * SEC
      for _, asked in pairs(not node.gone and node.asked or {}) do
        if self.now > math.max(asked.due, slept) + 0.1 * SEC then
          wrong("%d asked for %s and is not told", node.n, asked.what)
        end
      end
    end
  end

  local function check_token(self, token)
    for _, node in ipairs(self.nodes) do
      local running = not node.gone and (node.stopped or 0) <= self.now
      if running and not node.mortal and node.channel and #token == TOKEN
          and token:sub(34, 49) == node.channel:sub(-16)
          and not self.detached[token] and node.machine:quiet()
          and not node.machine:knows(token) then
        wrong("%d left %s on the server", node.n, token)
      end
    end
  end

  -- Whether the server takes it for one that waits: others are passed over. Of
  -- one without a half in its order that is all that is known.
  local function alive(self, queue, item)
    if item.score % 1 == 0 then
      return item.score / 1000 + 1000 > self.db:now()
    end
    local note = self.db:find((queue:gsub(":q:", ":w:"))).at[item.member]
    return note and tonumber(note:match("^%d+")) > self.db:now()
  end

  -- Who finds that the time of a hold has passed leaves it to the server, whose
  -- count is a margin longer: 10 ms and a hundredth of at most 30 s.
  local function lasts(self, ends)
    return ends > self.db:now() + 310
  end

  -- What stands on the server is held, waited with, or being taken back; or it
  -- is a short ttl's, which may pass before anything can be taken back.
  function network:check_tokens()
    self:set_server_time()
    local lock = self.db:find("lock")
    check_token(self, lock and lasts(self, lock.ends) and lock.value or "")
    for _, name in ipairs(self.db:names()) do
      for _, item in ipairs(name:find(":[qh]:")
          and self.db:find(name).list or {}) do
        local holds = name:find(":h:") and lasts(self, item.score)
        if holds or not name:find(":h:") and alive(self, name, item) then
          check_token(self, item.member)
        end
      end
    end
  end

  function network:check_end()
    self:check_answered()
    for _, node in ipairs(self.nodes) do
      local left = not node.gone and node.machine:left()
      if left and not (self.lingers and left:find("take back", 1, true)) then
        wrong("%d has %s left", node.n, left)
      end
    end
    self:set_server_time()
    for _, name in ipairs(self.db:names()) do
      if not name:find(":f:", 1, true) or not self.db:find(name).ends then
        wrong("%s is left on the server", name)
      end
    end
  end

  -- Whoever still waits when the network has been well for long is stuck.
  function network:check_stuck()
    for _, agent in ipairs(self.agents) do
      if agent.since then
        self:check_patience(agent)
      end
    end
  end
end
