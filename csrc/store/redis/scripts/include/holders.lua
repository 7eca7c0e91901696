-- Needs: clock, state. The tokens that hold, at most 1,000: ours, not
-- what a foreign client wrote.
--@include ours
local function holders(s)
  if s.mode == 's' then return call('ZRANGE', H, 0, 999) end
  if s.mode and ours(s.value) then return { s.value } end
  return {}
end
