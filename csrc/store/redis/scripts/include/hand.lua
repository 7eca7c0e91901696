-- Needs: clock, channel, publish, memory, F, L, W. The usual hand-over: what
-- grant_first would do, without its functions. It is on the way of the message,
-- and runs from cold caches.

-- Gives the lock to the first, which was taken out of the queue, if: it wants
-- an exclusive hold without a value; it asked within the last second (see
-- asks); the counter needs counting only. Returns how many heard it, and when
-- it asked; or nil: L and W are as they were, and some fences may be left out.
--
-- The counter's time needs no look for a plain waiter: its join set it.
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
