-- Needs: clock, channel, F, L. The hand-over as it mostly is, and nothing that
-- it does not need: on the way of every message this runs, from cold caches.
--@include bounds

-- How many heard that it is theirs. ask: redis.call, or redis.pcall.
local function publish(ask, token, f)
  return ask('PUBLISH', channel(token), string.format('g %.0f %s', f, token))
end

-- Nobody holds, or the holder leaves, and there are no notes of it. Gives the
-- lock to the first of the queue, which was taken out of that, if it is one
-- that waits for an exclusive hold and is not noted (see standing), if it asked
-- within the last second (see asks), and if the counter needs no more than
-- counting. Returns how many heard that; nil if it gave nothing: then L is as
-- it was, and at most some fences are left out.
--
-- The counter's time needs no look: the waiter's own request saw to that when
-- it joined (see acquire), for the ttl that it wants and this second more.
local function hand(ask, token, score)
  local order = tonumber(score)
  if order % 1 ~= 0 or now - order / 1000 >= 1000 then return nil end
  local f = redis.pcall('INCRBY', F, '1')
  if type(f) ~= 'number' or f < FIRST or f >= END then return nil end
  if ask('SET', L, token, 'PX', CLAIM).err then return nil end
  return publish(ask, token, f)
end
