-- What a worker of the torture does: turns, each drawn from its seed. The keys
-- and what is done with each:
--
--   mutex   exclusive, with tries, reentrant `with`, detach and attach
--   fast    exclusive with fair = false, so an event loop hands it on locally
--   book    readers and writers, who downgrade now and then
--   seats   permits (three in all), and exclusive holds among them

local belief = require "spec.torture.belief"

local turns = {}
turns.__index = turns

local PERMITS = 3
local LOOK = 1 -- ms between looks at held()
local GRACE = 6 -- seconds: what `with` may take beyond the wait for the lock

turns.KEYS = { "mutex", "fast", "book", "seats" }

local function objects(store)
  local book = store:rwlock("book")
  return { mutex = store:mutex("mutex"),
    nested = store:mutex("mutex", { reentrant = true }),
    fast = store:mutex("fast", { fair = false, local_handoffs = 8 }),
    reader = book:read(), writer = book:write(),
    seats = store:semaphore("seats", PERMITS), room = store:mutex("seats") }
end

function turns.new(context)
  return setmetatable({ context = context, objects = objects(context.store) },
    turns)
end

function turns:draw()
  return self.context.random:next()
end

-- Calls lockable:how(...), written down; the lease (or what it gave), when it
-- was asked for and when the answer was there.
function turns:timed(key, what, bound, fn, ...)
  local context = self.context
  local asked = context.now()
  local place = context.calls:call(key, what, bound, asked)
  local value, message, code = fn(...)
  local returned = context.now()
  context.calls:ended(place, value and "ok" or code or "nothing", returned,
    value and "" or tostring(message))
  return value, asked, returned
end

-- Most holds are short; some need a renewal, or outlive a lease without one.
function turns:length()
  local draw = self:draw()
  if draw < 0.35 then
    return 0
  elseif draw < 0.96 then
    return 0.002 + self:draw() * 0.03
  elseif draw < 0.99 then
    return 0.1 + self:draw() * 0.2
  end
  return self.context.args.ttl * (1 + self:draw() / 2)
end

-- Options of a wait. Short ones cross their grants.
function turns:options()
  local draw, opts = self:draw(), {}
  opts.timeout = draw < 0.1 and 0.02 + self:draw() * 0.2
    or draw < 0.4 and 2 or 30
  draw = self:draw()
  if draw < 0.05 then
    opts.min_hold = 0.05 + self:draw() * 0.1
  elseif draw < 0.12 then
    opts.renew = false
  elseif draw < 0.15 then
    opts.max_hold = 0.3
  end
  return opts
end

-- Believes in a hold for some time; in an exclusive one it writes into the
-- register now and then, as programs do: after a look at held(), not with it.
function turns:stay(h, seconds)
  local context = self.context
  local writes = h.mode == "x" and self:draw() < 0.85
  local until_ = context.now() + seconds
  while h:held() do
    if context.now() >= until_ then
      return true
    end
    context.pause(LOOK)
    if writes then
      context.register:write(("%-8s %017.9f %015.0f\n"):format(h.key, h.start,
        h.fence))
    end
  end
  return false
end

-- Detaches a lease for the next reader of the mail, another process.
function turns:send(h)
  local context = self.context
  local text = self:timed(h.key, "detach", context.args.io_timeout, function()
    return h.lease:detach()
  end)
  h:over(text and "detached" or "undetached")
  if not text then
    return h.lease:release()
  end
  for _ = 1, self:draw() < context.args.twice and 2 or 1 do
    self:post(h.key, text)
  end
end

-- Leaves a detached lease for somebody.
function turns:post(key, text)
  local context = self.context
  context.counter = context.counter + 1
  local name = ("%s/%s-%d"):format(context.mail, context.args.name,
    context.counter)
  local file = assert(io.open(name .. ".tmp", "wb"))
  file:write(key, "\n", text)
  file:close()
  os.rename(name .. ".tmp", name .. ".lease")
end

function turns:attach(key, store, text)
  local lease, asked, returned = self:timed(key, "attach",
    self.context.args.io_timeout, store.attach, store, text)
  if lease then
    self:hold(key, lease, asked, returned, true)
  end
end

-- Takes what somebody else detached, if there is something.
function turns:receive()
  local uv = require "luv"
  local scan = uv.fs_scandir(self.context.mail)
  local name = scan and uv.fs_scandir_next(scan)
  while name and not name:find("%.lease$") do
    name = uv.fs_scandir_next(scan)
  end
  local path = name and self.context.mail .. "/" .. name
  local mine = path and path .. ".by." .. self.context.args.name
  if not path or not os.rename(path, mine) then
    return
  end
  local file = assert(io.open(mine, "rb"))
  local key, text = file:read("*l"), file:read("*a")
  file:close()
  os.remove(mine)
  self:attach(key, self.context.store, text)
end

-- How a hold ends.
function turns:leave(h)
  local draw = self:draw()
  if h.mode == "x" and h.key == "book" and draw < 0.3 then
    self:downgrade(h)
  elseif draw < 0.05 then
    h:over("later")
    h.lease:release_later()
  elseif draw < 0.07 then
    h:over("collected")
    self.collect = true
  elseif draw < 0.12 and h.key == "mutex"
    and self.context.args.portable == 1 then
    self:send(h)
  else
    h:over("released")
    self:timed(h.key, "release", self.context.args.io_timeout, function()
      return h.lease:release()
    end)
  end
end

function turns:downgrade(h)
  local lease = h.lease
  h:over("downgraded")
  local ok, asked, returned = self:timed(h.key, "downgrade",
    self.context.args.io_timeout, lease.downgrade, lease)
  if ok then
    self:hold(h.key, lease, asked, returned, true)
  else
    lease:release()
  end
end

-- A lease is here: believes in it for a while and ends it.
function turns:hold(key, lease, asked, returned, carried)
  local h = belief.begin(self.context, key, lease, asked, returned, carried)
  local stayed = self:stay(h, self:length())
  if stayed and self:draw() < 0.1 then
    self:timed(key, "extend", self.context.args.io_timeout, lease.extend, lease)
    self:stay(h, self:length())
  end
  self:leave(h)
end

-- A canceller that is used after a moment, in an event loop.
function turns:cancelled_soon(opts)
  if self.context.args.host ~= "blocking" and self:draw() < 0.05 then
    local canceller = require("dlock").canceller()
    opts.cancel = canceller
    self.context.later(math.floor(1 + self:draw() * 100), function()
      canceller:cancel()
    end)
  end
end

function turns:acquire(key, lockable, more)
  local opts = self:options()
  for name, value in pairs(more or {}) do
    opts[name] = value
  end
  self:cancelled_soon(opts)
  local lease, asked, returned = self:timed(key, "acquire",
    opts.timeout + self.context.args.io_timeout, lockable.acquire, lockable,
    opts)
  if lease then
    self:hold(key, lease, asked, returned)
  end
end

function turns:try(key, lockable)
  local lease, asked, returned = self:timed(key, "try",
    self.context.args.io_timeout, lockable.try_acquire, lockable)
  if lease then
    self:hold(key, lease, asked, returned)
  end
end

-- Enters twice; both leases are the one hold that is written down.
function turns:nested()
  local context, mutex = self.context, self.objects.nested
  local asked, opts = context.now(), { timeout = 2 }
  self:timed("mutex", "with", 2 + context.args.io_timeout + GRACE, mutex.with,
    mutex, opts, function(lease)
      local h = belief.begin(context, "mutex", lease, asked, context.now())
      mutex:with(opts, function()
        self:stay(h, 0.002)
      end)
      self:stay(h, 0.002)
      h:over("with")
    end)
end

local MIX = {
  { 0.22, function(self) self:acquire("mutex", self.objects.mutex) end },
  { 0.30, function(self) self:try("mutex", self.objects.mutex) end },
  { 0.36, function(self) self:nested() end },
  { 0.40, function(self) self:receive() end },
  { 0.58, function(self) self:acquire("fast", self.objects.fast) end },
  { 0.70, function(self) self:acquire("book", self.objects.reader) end },
  { 0.78, function(self) self:acquire("book", self.objects.writer) end },
  { 0.95, function(self)
    self:acquire("seats", self.objects.seats,
      { permits = self:draw() < 0.3 and 2 or 1 })
  end },
  { 1.00, function(self) self:acquire("seats", self.objects.room) end },
}

function turns:turn()
  -- Without readers and permits, in one of the first five.
  local draw = self:draw() * (self.context.args.plain == 1 and 0.58 or 1)
  for _, one in ipairs(MIX) do
    if draw < one[1] then
      one[2](self)
      if self.collect then -- a lease that nothing refers to any longer
        self.collect = nil
        collectgarbage()
      end
      return self.context.pause(LOOK)
    end
  end
end

return turns
