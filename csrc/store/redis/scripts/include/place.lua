-- Needs: call, channel, kept, Q, W. What keeps a place in the queue.
local function listens(token)
  return call('PUBSUB', 'NUMSUB', channel(token))[2] > 0
end

-- W lasts as long as Q.
local function keep_queue()
  call('PEXPIRE', Q, KEPT)
  call('PEXPIRE', W, KEPT)
end

local function is_aging() return call('PTTL', Q) < KEPT - AGING end

-- Writes what standing reads; new: it has no place yet. W comes first: if that
-- is no hash, nothing is left behind without a ttl.
local function note_waiter(token, order, new, w)
  local first = call('HSET', W, token, w.seen .. ' ' .. w.span .. ' '
    .. w.units .. ' ' .. w.cap .. ' ' .. w.claim
    .. (w.value and ' ' .. w.value or ''))
  if first == 0 and not new then return end
  call('ZADD', Q, order .. '.5', token)
  keep_queue()
end
