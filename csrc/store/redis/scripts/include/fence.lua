-- Needs: clock, counter, memory, F, lift. The next fence, or the first of n.
--
-- A missing counter begins at the clock: 64 for each ms since September 2020,
-- parts of a ms counted. No key sees so many grants, so the clock is above each
-- fence of before. With `lift` a counter that is there is raised in the same
-- way: its data may be older than the last grants (fence.c). `lifted` tells it.
--
-- `spare` fences above it are set aside, but never up to the clock, since a
-- lost counter begins there. Returns as well how many.
local lifted = 0

local function fence(n, spare)
  n = n or 1
  local f = count(n) - n + 1
  local clock = FIRST + math.max(time[1] - 1600000000, 0) * 64000
    + math.floor(time[2] * 64 / 1000)
  if f < clock and (lift or f < FIRST) then
    -- INCRBY from far below zero would overflow.
    call('SET', F, digits(clock + n - 1), 'KEEPTTL')
    f = clock
  end
  if lift then lifted = 1 end
  remember()
  spare = math.min(spare or 0, clock - 1 - f)
  if spare <= 0 then return f, 0 end
  call('INCRBY', F, digits(spare))
  return f, spare
end
