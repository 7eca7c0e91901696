-- Needs: clock, counter, memory, F, lift. The next fence, or the first of
-- the next n. A counter that is missing (its first use, FLUSHALL, its memory is
-- over) begins at the clock, 64 for each millisecond since September 2020:
-- above every fence given before, because no key sees 64 grants in one for
-- long. The parts of a millisecond count too, or a counter that is lost in the
-- one in which it began would begin again where it was.
--
-- With `lift` a counter that is there is not believed either: the data may be
-- an older snapshot's, or those of a replica that missed the last grants (see
-- fence.c). It goes on above what it was, at the clock at least. `lifted` says
-- that this was done.
--
-- With `spare`, so many above it are set aside for whoever the holder hands the
-- lock to; fewer, or none, where that would carry the counter up to the clock.
-- So what is set aside and never used costs nothing: a counter that is lost
-- still begins above all that it gave. Returns as well how many.
local lifted = 0

local function fence(n, spare)
  n = n or 1
  local f = count(n) - n + 1
  local clock = FIRST + math.max(time[1] - 1600000000, 0) * 64000
    + math.floor(time[2] * 64 / 1000)
  if f < clock and (lift or f < FIRST) then
    -- An INCRBY from far below nothing would overflow.
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
