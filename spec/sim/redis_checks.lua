-- What must stand on the server after each step, looked at in its data.
-- See redis_world.

local checks = {}

local KEYS = { L = "lock", Q = "q", W = "w", H = "h", P = "p" }

local function live_holders(w)
  local db = w.db
  local value, gen = db:call("GET", KEYS.L), db:call("HGET", KEYS.P, "g")
  local out, used = {}, 0
  if value and (not gen or value ~= "~s" .. gen) then
    return { [value] = db.keys[KEYS.L].ends or math.huge }, value, 0
  elseif not value then
    return {}, nil, 0
  end
  local list = db:call("ZRANGE", KEYS.H, 0, -1, "WITHSCORES")
  for i = 1, #list, 2 do
    local units = tonumber(db:call("HGET", KEYS.P, list[i]))
    used = used + (units or w.wrong("a shared holder without units"))
    if tonumber(list[i + 1]) > db:now() then
      out[list[i]] = tonumber(list[i + 1])
    end
  end
  return out, value, used, #list / 2
end

local function check_shared(w, used, count)
  local db = w.db
  local kept = db.keys[KEYS.L].ends
  if tonumber(db:call("HGET", KEYS.P, "u")) ~= used then
    w.wrong("%s units counted, %d are held", db:call("HGET", KEYS.P, "u"), used)
  end
  if db:find(KEYS.P).count ~= count + 3 then
    w.wrong("permits of nobody are kept")
  end
  local last = db:call("ZRANGE", KEYS.H, -1, -1, "WITHSCORES")[2]
  if not last or not kept or kept < tonumber(last) then
    w.wrong("shared holders do not keep the key")
  end
  for _, key in ipairs { KEYS.H, KEYS.P } do
    local ends = db:find(key).ends
    if not ends or ends < kept or ends > kept + 5000 then
      w.wrong("%s is kept for %s ms more than the lock", key,
        tostring(ends and ends - kept))
    end
  end
end

-- The holders on the server against the plain queue's.
local function compare(w, holders)
  local n, units, cap, exclusive = 0, 0, 0, false
  for token, ends in pairs(holders) do
    local h = w.plain:holder(token)
    if not h or h.ends ~= ends then
      w.wrong("%s holds until %s, due %s", token, tostring(ends),
        tostring(h and h.ends))
    end
    n = n + 1
    units = units + h.units
    cap = math.max(cap, h.cap)
    exclusive = exclusive or h.units == 0
  end
  if n ~= #w.plain.holders then
    w.wrong("%d hold, due %d", n, #w.plain.holders)
  elseif exclusive and n > 1 then
    w.wrong("an exclusive holder is not alone")
  elseif cap > 0 and units > cap then
    w.wrong("%d units of %d are held", units, cap)
  end
end

function checks.holders(w)
  local holders, value, used, count = live_holders(w)
  if count then
    check_shared(w, used, count)
  elseif value and value:sub(1, 2) == "~s" then
    w.wrong("a marker without its holders")
  end
  compare(w, holders)
end

-- Those with a half in their order, and only those, are written down.
local function check_notes(w, list)
  local db, noted = w.db, 0
  local waiters = db:find(KEYS.W)
  for _, token in ipairs(list) do
    if db:call("ZSCORE", KEYS.Q, token) % 1 ~= 0 then
      noted = noted + 1
      if not db:call("HGET", KEYS.W, token) then
        w.wrong("a waiter that nobody knows")
      end
    end
  end
  if (waiters and waiters.count or 0) ~= noted then
    w.wrong("%d are to be known, %d are", noted, waiters and waiters.count or 0)
  end
  if waiters and db:call("PTTL", KEYS.W) ~= db:call("PTTL", KEYS.Q) then
    w.wrong("what is known of waiters is not kept as long as they are")
  end
end

function checks.queue(w)
  local db = w.db
  local list = db:call("ZRANGE", KEYS.Q, 0, -1)
  for i = 1, math.max(#list, #w.plain.queue) do
    local due = w.plain.queue[i]
    if not due or list[i] ~= due.token then
      w.wrong("place %d: %s, due %s", i, tostring(list[i]),
        tostring(due and due.token))
    end
  end
  check_notes(w, list)
  local left = db:call("PTTL", KEYS.Q)
  local due = w.plain.queue_ends - db:now()
  if list[1] and left ~= due then
    w.wrong("the queue is kept for %d ms, due %d", left, due)
  end
end

-- After a script that hands on: the first that waits does not fit.
function checks.head(w)
  local head = w.plain.queue[1]
  if head and not w.freed and not w.passed and w.plain:believed(head)
      and w.plain:fits(head.units, head.cap) then
    w.wrong("the lock is free for #%d, which waits",
      w.tokens[head.token] and w.tokens[head.token].n or 0)
  end
end

return checks
