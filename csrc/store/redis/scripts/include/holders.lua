-- Needs: clock, state, grant. The tokens that hold, at most 1,000: ours, not
-- what a foreign client wrote.
local function holders(s)
  if s.mode == 's' then return call('ZRANGE', H, 0, 999) end
  if s.mode and string.find(s.value, '^%x+:%x+:') then return { s.value } end
  return {}
end
