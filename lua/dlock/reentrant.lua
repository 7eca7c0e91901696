-- The owners of holds, for reentrant locks. A nested acquire of a key by its
-- owner shares the hold, and costs no round trip.
--
--   holds.keys[key][owner] = the handles of that hold, a weak set
--
-- A handle leaves the set when it is released or collected; a lost hold does
-- not count. Owners are coroutines (or strings), held weakly. Empty tables are
-- swept when their number has doubled. The handles of a hold that ends with its
-- request (core.owned) are kept until then, since the owner may enter again
-- although no variable refers to the outer lease.
local core = require "dlock.core"

local reentrant = {}

local WEAK = { __mode = "k" }
local FIRST_SWEEP = 64

function reentrant.new()
  return { keys = {}, count = 0, limit = FIRST_SWEEP }
end

--- A handle of the live hold that owner has on key, or nil.
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

--- Notes one more handle.
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

--- Takes a handle out: it was released or given away.
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

--- Whether the hold of this handle has others.
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

--- The hold became another mode's: its handle is found by that key from now.
function reentrant.move(holds, lease, key)
  local owner = core.slot(lease).hold_owner
  if owner ~= nil then
    reentrant.drop(holds, lease)
    reentrant.add(holds, key, owner, lease)
  end
end

return reentrant
