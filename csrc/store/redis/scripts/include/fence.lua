-- Needs: clock, F. The next fence. A counter that is missing (its first use,
-- FLUSHALL, a day without use) begins at the clock, 32 for each millisecond:
-- above every fence given before, because no key sees 32 grants in one. The
-- parts of a millisecond count too, or a counter that is lost in the one in
-- which it began would begin again where it was.
local function fence()
  local f = call('INCR', F)
  if f < 1000000000000 then
    f = time[1] * 32000 + math.floor(time[2] * 32 / 1000)
    call('SET', F, digits(f), 'PX', 86400000)
  end
  return f
end
