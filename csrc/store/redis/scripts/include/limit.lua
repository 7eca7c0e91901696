-- Needs: units, cap. Whether a live waiter ahead, or the holder, shares under
-- another limit.
local function other_limit(s, ahead)
  if units == 0 then return false end
  if ahead then return ahead.units > 0 and ahead.cap ~= cap end
  return s.mode == 's' and s.cap ~= cap
end
