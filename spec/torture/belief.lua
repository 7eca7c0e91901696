-- A hold of the torture as its worker believes in it: each look at held() that
-- answered true is written down, with a time from before the look. (held()
-- never becomes true again, so it was true then too.)

local belief = {}
belief.__index = belief

local MODES = { exclusive = "x", shared = "s", semaphore = "p" }

--- asked, returned: the request's times. carried: the hold goes on from an
--- earlier record. Nothing is believed yet: an answer that was read late may
--- bring a lease that is over.
function belief.begin(context, key, lease, asked, returned, carried)
  local mode = MODES[lease.mode]
  local h = setmetatable({ context = context, key = key, lease = lease,
    mode = mode, fence = lease.fence, start = returned }, belief)
  h.place = context.holds:hold { key = key, mode = mode,
    units = mode == "p" and lease.permits or 0, cap = mode == "p" and 3 or 0,
    fence = lease.fence, asked = asked, start = returned, last = 0,
    carried = carried }
  return h
end

-- What held() says; with a mistake put in, some time longer.
local function held(self, time)
  local longer = self.context.args.believe or 0
  if self.lease:held() then
    return true
  elseif longer == 0 then
    return false
  end
  self.lost = self.lost or time
  return time < self.lost + longer
end

--- held(), written down.
function belief:held()
  local time = self.context.now()
  if held(self, time) then
    self.context.holds:at(self.place, time)
    return true
  end
  return false
end

--- Nobody believes in it from now on.
function belief:over(how)
  self.context.holds:ended(self.place, how)
end

return belief
