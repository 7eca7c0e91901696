-- Says what a wait is for: after a second, and at each change. It asks the
-- store by a request of its own, which the wait drives too.
local core = require "dlock.core"
local out = require "dlock.cli.out"
local stores = require "dlock.store"

local waiting = {}

local FIRST, NEXT = 1, 5 -- seconds until the store is asked, and again

--- As the engine names a process.
function waiting.own_name()
  local file = io.open("/proc/sys/kernel/hostname")
  local host = file and file:read("*l") or "localhost"
  if file then file:close() end
  return ("%s/%d"):format(host, core.pid())
end

local function ahead(found, name)
  for i, waiter in ipairs(found.waiters) do
    if waiter.owner == name then return i - 1 end
  end
end

-- A line on what a key is waited for, nil if it is free or ours; and a mark,
-- which says when the line is new.
local function describe(key, found, name)
  local before = ahead(found, name)
  local first = found.holders[1]
  if not first or first.owner == name then return nil end
  local others = #found.holders - 1
  local parts = { "held by " .. out.plain(first.owner) }
  if others > 0 then
    parts[1] = ("%s and %d more"):format(parts[1], others)
  end
  local mark = parts[1] .. "\0" .. tostring(before)
  if first.since then
    parts[1] = ("%s for %.0f s"):format(parts[1], math.floor(first.since))
  end
  if before and before > 0 then
    parts[2] = ("%d ahead of us"):format(before)
  end
  return ("waiting for %s: %s"):format(out.plain(key),
    table.concat(parts, ", ")), mark
end

--- A function to be called again and again during a wait, and with true at its
--- end.
function waiting.teller(store, keys, name, say)
  local client = stores.client(store)
  local due, at, ticket = core.now() + FIRST, 1, nil
  local said = {} -- by key, and by client: the last mark
  local free = 0 -- answers in a row that named no holder

  local function tell(about, line, mark)
    if line and mark ~= said[about] then say(line) end
    said[about] = mark
  end

  local function answer(found, _, code)
    free = not code and not (found and found.holders[1]) and free + 1 or 0
    if free == 2 * #keys then
      say(("waiting for %s: nobody holds it, and %s does not grant it yet")
        :format(out.plain(keys[1]), client.shown))
    end
    if found then
      tell(keys[at], describe(keys[at], found, name))
      said[client] = nil
    elseif code == "unavailable" then
      tell(client, ("cannot reach %s, trying again"):format(client.shown), code)
    end
    at = at % #keys + 1
    due = core.now() + (at > 1 and 0 or free > 0 and FIRST or NEXT)
  end

  return function(over)
    if over then
      if ticket then ticket:cancel() end
    elseif ticket then
      if ticket:poll() then
        local done = ticket
        ticket = nil
        answer(done:take())
      end
    elseif core.now() >= due then
      local problem, code
      ticket, problem, code = client.engine:inspect(keys[at])
      if not ticket then answer(nil, problem, code) end
    end
  end
end

return waiting
