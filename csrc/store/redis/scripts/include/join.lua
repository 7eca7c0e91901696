-- Needs: clock, channel, counter, memory, kept, all names, token, how, value,
-- occupied. The joining as it mostly is, and nothing that it does not need:
-- another one holds the lock alone, and we want to hold it alone as well, for a
-- claim at the least, and have had no place. The rest of the script would do
-- the same (see queue_up and stand), because:
-- - Our time comes after the order of the last one in the queue; so that is our
--   order, and our place is the last.
-- - The last one joined as we do, less than a second ago, and listens: nobody
--   dead stands right before us. With it, or since, the queue was given its
--   time. Or there is no queue; then nobody is in W.
-- - The counter is given its time here, for the hand-over (see hand).
-- Who has a place all the same is not added (NX).
if how == 'join' and occupied and ARGV[3] == '0' and ARGV[6] == CLAIM
    and ARGV[7] == CLAIM and ARGV[8] == '' and not ARGV[12] then
  local last = call('ZRANGE', Q, '-1', '-1', 'WITHSCORES')
  local order = time[1] .. string.sub('00000' .. time[2], -6)
  local fine = true
  if last[1] then
    local at, before = order + 0, last[2] + 0
    fine = before % 1 == 0 and before < at and at - before < 999000
      and same_span(before, at)
      and call('PUBSUB', 'NUMSUB', channel(last[1]))[2] > 0
  end
  local f = fine and counter()
  if f then remember(CLAIM) end
  if f and call('ZADD', Q, 'NX', order, token) == 1 then
    if last[1] then
      return { 'wait', -1, f, order, call('ZRANK', Q, token), value, 0 }
    end
    call('PEXPIRE', Q, KEPT)
    return { 'wait', call('PTTL', L), f, order, 0, value, 0 }
  end
end
