-- Stores with the same URL and options share clients, so opening one for each
-- request takes no more descriptors and threads. The first MOST have a client
-- each; others share these in turn. A store always has its own waits, leases,
-- defaults and end.
--
-- Clients are found by engines, because weak tables lose userdata before
-- finalisation.
local core = require "dlock.core"
local options = require "dlock.options"

local shared = {}

local MOST = 12
local MANY = 20 -- clients of any kind: see make_room

local OWN = options.defaults {}
OWN.id, OWN.url = true, true

local WEAK = { __mode = "v" }
local pools = {}

-- Equal for values that mean the same to a client.
local function text_of(value)
  if type(value) ~= "table" then
    return ("%s %s"):format(type(value), tostring(value))
  end
  local parts = {}
  for name, one in next, value do
    local text = text_of(one)
    parts[#parts + 1] = ("%s %d %s"):format(text_of(name), #text, text)
  end
  table.sort(parts)
  return "{" .. table.concat(parts, "\0") .. "}"
end

function shared.key(where, opts)
  local all = { [1] = where.shown, [2] = where.username or false,
    [3] = where.password or false }
  for name, value in next, opts do
    if OWN[name] == nil then
      all[name] = value
    end
  end
  return text_of(all)
end

--- An engine to share (from engine:share) and its client; nil: the store makes
--- its own.
function shared.find(key)
  local pool = pools[key]
  if not pool then
    return nil
  end
  local list = {}
  for _, engine in next, pool.engines do
    if engine:usable() then
      list[#list + 1] = engine
    end
  end
  if #list < MOST then
    return nil
  end
  pool.turn = pool.turn % #list + 1
  local client = list[pool.turn]:client()
  return list[pool.turn]:share(), client
end

local next_look = MANY

--- Stores with different options share nothing (a new on_event each, say). The
--- collector does not know their cost, so we collect whenever they have
--- doubled.
function shared.make_room()
  if core.engines() >= next_look then
    collectgarbage()
    next_look = math.max(MANY, 2 * core.engines())
  end
end

function shared.add(key, client)
  local pool = pools[key]
  if not pool or next(pool.engines) == nil then
    for other, one in next, pools do
      if next(one.engines) == nil then pools[other] = nil end
    end
    pool = { engines = setmetatable({}, WEAK), turn = 0, last = 0 }
    pools[key] = pool
  end
  for number, engine in next, pool.engines do
    if not engine:usable() then pool.engines[number] = nil end
  end
  pool.last = pool.last + 1
  pool.engines[pool.last] = client.engine
end

return shared
