-- What can happen to one key: each action does it by the shipped scripts (or
-- as a foreign client would) and by the plain queue, and compares. The
-- numbers say to whom. See redis_world.

local actions = { list = {}, total = 0 }

local KEYS = { L = "lock", F = "f", Q = "q", H = "h", P = "p" }
local LONG = 1e8 -- ms; no counter stays for so long

local function action(weight, name, run)
  actions.list[#actions.list + 1] = { weight = weight, name = name, run = run }
  actions.total = actions.total + weight
end

-- The small script, which does not look who waits; where the counter is known.
action(8, "try", function(w, a, _, c)
  local t = w:token(a, 0, 0)
  local missing = w.db:call("EXISTS", KEYS.F) == 0
  if not w:plain_will_do(t.client) or missing then
    if missing and type(w:eval("take", { t.name, t.ttl })) == "number" then
      w.wrong("#%d is given a fence without a counter", t.n)
    end
    w:acquire(t, "try", c)
    return
  end
  w:pass_edge()
  local f = w:eval("take", { t.name, t.ttl })
  local due = w.plain:set_if_free(t.name, t.ttl)
  w:say("#%d takes, ttl %d: %s", t.n, t.ttl, due and "got" or "busy")
  if (type(f) == "number") ~= due then
    w.wrong("take of #%d: %s", t.n, tostring(f))
  end
  t.state = due and "held" or "over"
  if due and not w.freed then
    w:let_in(t, math.huge)
  end
  if due then
    w:fence_given(f)
  end
end)

action(24, "join", function(w, a, b, c)
  w:acquire(w:token(a, w:want(b)), "join", c)
end)

action(10, "script try", function(w, a, b, c)
  w:acquire(w:token(a, w:want(b)), "try", c)
end)

local function rejoin(w, t, c)
  local new = w:token(0, t.units, t.cap)
  new.client = t.client
  w.tokens[new.name] = nil
  new.name = ("%032d:%s:me"):format(new.n, t.client)
  w.tokens[new.name] = new
  new.order, new.ttl = t.order, t.ttl
  w:say("#%d instead of #%d", new.n, t.n)
  w:acquire(new, "join", c)
end

action(14, "refresh", function(w, a, b, c)
  local t = w:pick(a, "queued")
  if t and w:acquire(t, "refresh", c) == "gone" and b < 0.9 then
    rejoin(w, t, c)
  end
end)

-- A reply was lost: the token's fate is unknown, another takes its place.
action(3, "rejoin", function(w, a, _, c)
  local t = w:pick(a, "queued")
  if t then
    t.state = "orphan"
    rejoin(w, t, c)
  end
end)

action(6, "cancel", function(w, a)
  local t = w:pick(a, "queued")
  if t then
    w:say("#%d cancels", t.n)
    w:leave(t, 0)
  end
end)

-- The small script first, as the client does it.
action(20, "release", function(w, a, b)
  local t = w:pick(a, "held")
  if not t then
    return
  end
  local rest = b > 0.9 and math.floor(b * 1000) or 0
  w:say("#%d releases, rest %d", t.n, rest)
  if t.units == 0 and rest == 0 then
    local held = w.plain:holder(t.name)
    local due = not held and -1 or w.plain.queue[1] and -2 or 1
    local got = w:eval("release", { t.name })
    if got ~= due then
      w.wrong("release of #%d: %s, due %d", t.n, tostring(got), due)
    elseif got == 1 then
      w.plain:leave(t.name, 0)
      t.state = "over"
      return
    end
  end
  w:leave(t, rest)
end)

action(7, "renew", function(w, a)
  local t = w:pick(a, "held")
  if t then
    w:renew(t, t.ttl)
  end
end)

-- For more or for less time.
action(4, "extend", function(w, a, b)
  local t = w:pick(a, "held")
  if t then
    t.ttl = 50 + math.floor(b * 4000)
    w:renew(t, t.ttl, true)
  end
end)

-- A renewal that was sent before the last extension.
action(3, "late renew of a hold", function(w, a, b)
  local t = w:pick(a, "held")
  if t then
    w:renew(t, 50 + math.floor(b * 4000))
  end
end)

-- What was under way for long, or is repeated.
action(5, "late leave", function(w, a, b)
  local t = w:pick(a, b < 0.5 and "orphan" or "over", true)
  if t then
    w:say("#%d leaves late", t.n)
    w:leave(t, 0)
  end
end)

action(2, "late renew", function(w, a)
  local t = w:pick(a, "over", true)
  if t then
    w:renew(t, t.ttl)
  end
end)

action(2, "late refresh", function(w, a, _, c)
  local t = w:pick(a, "over", true)
  if t then
    w:acquire(t, "refresh", c)
  end
end)

action(14, "time", function(w, a, b)
  local ms = b < 0.5 and 1 + a * 40 or b < 0.8 and 40 + a * 1460
    or b < 0.94 and 1500 + a * 18500 or b < 0.99 and 20000 + a * 110000
    or LONG
  ms = math.floor(ms)
  w:pass(ms)
  w:say("%d ms pass", ms)
end)

action(3, "kill", function(w, a)
  local i = 1 + math.floor(a * #w.clients)
  w:say("client %s dies", w.clients[i])
  w.db.listeners[w.channel(w.clients[i])] = nil
  w:connect(i)
end)

action(2, "foreign set", function(w, a, b)
  w.drawn = w.drawn + 1
  local value, ttl = "foreign" .. w.drawn, math.floor(a * 3000) + 1
  local ok
  w:pass_edge()
  if b < 0.3 then
    ok = w.db:call("SET", KEYS.L, value, "NX")
    ttl = math.huge
  else
    ok = w.db:call("SET", KEYS.L, value, "NX", "PX", ttl)
  end
  local due = w.plain:set_if_free(value, ttl)
  w:say("a foreign client sets %s: %s", value, due and "OK" or "nil")
  if (ok ~= false) ~= due then
    w.wrong("a foreign SET NX: %s", tostring(ok))
  end
end)

action(0.7, "foreign overwrite", function(w, a)
  w.drawn = w.drawn + 1
  local value, ttl = "foreign" .. w.drawn, math.floor(a * 3000) + 1
  w:say("a foreign client overwrites with %s for %d ms", value, ttl)
  w.db:call("SET", KEYS.L, value, "PX", ttl)
  w.plain:void_holders()
  w.plain:set_if_free(value, ttl)
end)

action(3, "foreign del", function(w, a)
  local holder = w.plain:exclusive()
  if a < 0.4 or holder and holder.token:find("foreign") then
    w:say("a foreign client deletes the key")
    w.db:call("DEL", KEYS.L)
    w.plain:void_holders()
    w.freed = true
  end
end)

-- By the script, or as with any client.
action(0.7, "break", function(w, a)
  w:say("an administrator breaks the lock")
  if a < 0.7 and w.db.scripts["break"] then
    w:eval("break", { w:memory_of(w.clients[1]) })
    w.plain:void_holders()
    w:compare_grants(w.plain:admit())
    w.freed = false
    return
  end
  w.db:call("DEL", KEYS.L, KEYS.H, KEYS.P)
  w.plain:void_holders()
  w.freed = true
end)

action(3, "downgrade", function(w, a)
  local t = w.db.scripts.downgrade and w:pick(a, "held")
  if not t or t.units ~= 0 then
    return
  end
  w:say("#%d is downgraded", t.n)
  local reply = w:eval("downgrade", { t.name, ("%.0f"):format(w.fence), 0,
    w:memory_of(t.client) })
  local held, granted = w.plain:downgrade(t.name)
  if (reply[1] == 1) ~= held then
    w.wrong("downgrade of #%d: %s", t.n, tostring(reply[1]))
  end
  w:compare_grants(granted)
  if held then
    t.units, t.cap = 1, 0
  end
end)

action(1, "flush", function(w)
  w:say("all data is lost")
  w.lost = true
  w:lose()
end)

action(1, "save", function(w)
  local f = w.db:find(KEYS.F)
  w.saved = f and { kind = f.kind, value = f.value, ends = f.ends, at = {} }
end)

-- With what was saved, which may be long ago, or with nothing.
action(1, "restart", function(w)
  w:say("the server starts again with the counter %s",
    w.saved and w.saved.value or "missing")
  w:restart(w.saved)
  w.saved = nil
end)

return actions
