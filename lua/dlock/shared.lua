-- Stores that are opened often, with the same URL and options: MOST of them
-- have a client each, and all others share these in turn, so that a program
-- that opens a store for each request needs no more descriptors and threads. A
-- store that shares has waits, leases, defaults and an end of its own.
--
-- Clients are found by their engines, because weak tables lose userdata before
-- these are finalised.
local core = require "dlock.core"
local options = require "dlock.options"

local shared = {}

local MOST = 12
local MANY = 20 -- of any kind: see make_room

-- What a store that shares a client has for itself.
local OWN = options.defaults {}
OWN.id, OWN.url = true, true

local WEAK = { __mode = "v" }
local pools = {}

-- A text that is the same for values that mean the same to a client.
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

--- What a client is found by.
---@param where table as url.parse returns it
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

--- An engine of a client that one more may share, as engine:share gives it, and
--- that client; nil: it is to have one of its own.
---@return table|nil client
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

--- Stores whose options differ (a new function as on_event for each) share
--- nothing. The collector does not know what they cost, so it is asked for
--- those that are garbage whenever their number has doubled.
function shared.make_room()
  if core.engines() >= next_look then
    collectgarbage()
    next_look = math.max(MANY, 2 * core.engines())
  end
end

--- From now on others may share this client.
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
