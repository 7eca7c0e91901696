-- Owners of holds: a nested acquire by the owner shares the hold, without a
-- round trip.
--
--   holds.keys[key][owner] = the handles of that hold, a weak set
--
-- An owner is a coroutine (held weakly) or a string. A lost hold does not
-- count. Empty tables are swept when their number has doubled. Handles that end
-- with their request (core.owned) are kept until then: the owner may enter
-- again after the outer lease was dropped.
local core = require "dlock.core"

local reentrant = {}

local WEAK = { __mode = "k" }
local FIRST_SWEEP = 64

function reentrant.new()
  return { keys = {}, count = 0, limit = FIRST_SWEEP }
end

function reentrant.find(holds, key, owner)
  local owners = holds.keys[key]
  local handles = owners and owners[owner]
  if handles then
    for lease in next, handles do
      if core.held(lease) then
        return lease
      end
    end
  end
end

local function sweep(holds)
  local count = 0
  for key, owners in next, holds.keys do
    for owner, handles in next, owners do
      for lease in next, handles do
        if not core.held(lease) then
          handles[lease] = nil
        end
      end
      if next(handles) == nil then
        owners[owner] = nil
      else
        count = count + 1
      end
    end
    if next(owners) == nil then
      holds.keys[key] = nil
    end
  end
  holds.count = count
  holds.limit = math.max(FIRST_SWEEP, 2 * count)
end

function reentrant.add(holds, key, owner, lease)
  if holds.count >= holds.limit then
    sweep(holds)
  end
  local owners = holds.keys[key]
  if not owners then
    owners = setmetatable({}, WEAK)
    holds.keys[key] = owners
  end
  local handles = owners[owner]
  if not handles then
    handles = core.owned(lease) and {} or setmetatable({}, WEAK)
    owners[owner] = handles
    holds.count = holds.count + 1
  end
  handles[lease] = true
  local slot = core.slot(lease)
  slot.hold_key, slot.hold_owner = key, owner
end

function reentrant.drop(holds, lease)
  local slot = core.slot(lease)
  local key, owner = slot.hold_key, slot.hold_owner
  slot.hold_key, slot.hold_owner = nil, nil
  local owners = key and holds.keys[key]
  local handles = owners and owners[owner]
  if not handles then
    return
  end
  handles[lease] = nil
  if next(handles) == nil then
    owners[owner] = nil
    holds.count = holds.count - 1
    if next(owners) == nil then
      holds.keys[key] = nil
    end
  end
end

function reentrant.is_nested(holds, lease)
  local slot = core.slot(lease)
  local owners = slot.hold_key and holds.keys[slot.hold_key]
  local handles = owners and owners[slot.hold_owner]
  if handles then
    for other in next, handles do
      if other ~= lease and core.held(other) then
        return true
      end
    end
  end
  return false
end

--- The hold changed its mode, and so its key.
function reentrant.move(holds, lease, key)
  local owner = core.slot(lease).hold_owner
  if owner ~= nil then
    reentrant.drop(holds, lease)
    reentrant.add(holds, key, owner, lease)
  end
end

return reentrant
