-- What takes long and is the same whatever Lua runs it is done in parts: each
-- Lua does one in so many, a quarter unless told otherwise, drawn by lot. With
-- one draw for all of them (`make test`) they do four different ones.
--
--   DLOCK_LOT=n     the draw of a run that printed n
--   DLOCK_LONG=1    everything under each Lua
--
-- A sanitizer sees in a tenth of many rounds what there is to see.

local uv = require "luv"

local lot = {}

local SHARES = 4
local PARTS = { ["Lua 5.1"] = 0, ["Lua 5.2"] = 0, ["Lua 5.3"] = 1,
  ["Lua 5.4"] = 2 }

--- A function that says whether the i-th is for this run: one in `shares`.
---@param name string
---@param shares? integer 4
function lot.draw(name, shares)
  if os.getenv("DLOCK_LONG") == "1" then
    return function() return true end
  end
  local part = rawget(_G, "jit") and 3 or PARTS[_VERSION]
  local drawn = tonumber(os.getenv("DLOCK_LOT")) or uv.random(1):byte()
  print(("  lot of %s: DLOCK_LOT=%d"):format(name, drawn))
  return function(i)
    return (i + drawn + part) % (shares or SHARES) == 0
  end
end

-- Those of a list that are `kept`, and by lot one of the others.
local function and_one(name, list, kept)
  local some, others = {}, {}
  for _, store in ipairs(list) do
    local into = kept(store) and some or others
    into[#into + 1] = store
  end
  local is_mine = lot.draw(name, #others)
  for i, store in ipairs(others) do
    if is_mine(i) then some[#some + 1] = store end
  end
  for _, store in ipairs(some) do
    store.url() -- its server starts now
  end
  return some
end

--- Of a list of stores: all but the other ways to a Redis, and one of these.
---@param list table[]
---@return table[]
function lot.stores(list)
  return and_one("ways to Redis", list,
    function(store) return not store.way end)
end

--- For what hardly depends on the store: files, and one other store.
---@param list table[]
---@return table[]
function lot.two_stores(list)
  return and_one("a store besides files", list,
    function(store) return store.name == "file" end)
end

--- How many of `rounds` there are to be in this run.
---@param rounds integer
---@return integer
function lot.rounds(rounds)
  local few = os.getenv("DLOCK_TEST_SANITIZER")
    and os.getenv("DLOCK_LONG") ~= "1"
  return few and math.floor(rounds / 10) or rounds
end

return lot
