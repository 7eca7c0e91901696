-- Needs: all names, token, place, queue, limit; order and rank: ours.
-- A place in the queue, for join and refresh.

-- We asked just now. new: we have no place yet.
local function note_us(new)
  note_waiter(token, order, new, { seen = time[1]
    .. string.format('%03d', math.floor(time[2] / 1000)), span = ARGV[6],
    units = ARGV[3], cap = ARGV[4], claim = ARGV[5], value = ARGV[11] })
end

-- Drops the dead right before a place, so the queue does not grow by them.
-- before: the first of them, if known. Returns 1: there may be more; else 0 and
-- the waiter ahead.
local function clear(before)
  for _ = 1, 100 do
    if rank == 0 then return 0 end
    local one = before or call('ZRANGE', Q, rank - 1, rank - 1, 'WITHSCORES')
    local w = before and standing(before[2], before[3])
      or not before and waiter(one[1], one[2])
    if w and alive(one[1], w) then return 0, w end
    leave_queue(one[1], one[2])
    rank, before = rank - 1, nil
  end
  return 1
end

-- Where we stand. more: 1 if the next ones are not let in yet.
local function stand(s, more, before)
  local ahead
  if more == 0 then more, ahead = clear(before) end
  if more == 0 and other_limit(s, ahead) then
    leave_queue(token)
    return { 'limit' }
  end
  return { 'wait', rank == 0 and call('PTTL', L) or -1,
    counter() or 0, order, rank, s.value or '', more }
end
