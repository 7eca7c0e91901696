-- Needs: clock, state. The tokens of ours that hold, at most 1,000.
--@include ours
--@include shown
local function holders(s)
  if s.mode == 's' then return call('ZRANGE', H, 0, SHOWN - 1) end
  if s.mode and ours(s.value) then return { s.value } end
  return {}
end
