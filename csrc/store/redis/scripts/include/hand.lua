-- Needs: clock, channel, publish, memory, F, L, W. The hand-over as it mostly
-- is, and nothing that it does not need: this is on the way of the message, and
-- runs from cold caches. In these cases it does what grant_first would do.

-- The holder leaves, and nobody is to be told of that. Gives the lock to the
-- first of the queue, which was taken out of that, if it is one that waits for
-- an exclusive hold, publishes nothing (see standing) and asked within the last
-- second (see asks), and if the counter needs no more than counting. Returns
-- how many heard that, and when it asked; nil if it gave nothing: then L and W
-- are as they were, and at most some fences are left out.
--
-- Of one without a note the counter's time needs no look: its own request saw
-- to that when it joined (see join), for the ttl that it wants and this second
-- more.
local function hand(token, score)
  local order = tonumber(score)
  local seen, claim, noted = math.floor(order / 1000), CLAIM, order % 1 ~= 0
  if noted then
    local said = redis.pcall('HGET', W, token)
    if type(said) ~= 'string' then return nil end
    local span
    seen, span, claim = said:match('^(%d+) (%d+) 0 0 ([1-9]%d?%d?%d?)$')
    if not seen or seen + span <= now then return nil end
  end
  if now - seen >= 1000 then return nil end
  local f = redis.pcall('INCRBY', F, '1')
  if type(f) ~= 'number' or f < FIRST or f >= END then return nil end
  if redis.pcall('SET', L, token, 'PX', claim).err then return nil end
  if noted then
    redis.pcall('HDEL', W, token)
    pcall(remember)
  end
  return publish(redis.pcall, token, f), seen
end
