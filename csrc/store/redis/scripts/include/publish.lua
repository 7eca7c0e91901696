-- Needs: channel. How many heard that it is theirs. ask: redis.call, or
-- redis.pcall.
--
-- What nobody heard is taken back, so nobody may hear it: those who count are
-- this server's listeners, and a replica would pass the message on to its own
-- as well. The connection for messages may stand there (see apart.c), and who
-- waits would begin a hold that is another one's by then. So the message alone
-- is kept from the replicas. What is written behind it goes to them again,
-- whatever became of the message; one that was refused is refused once more,
-- in the server's own words. What is not Redis may not know how to keep it from
-- them, or not allow it: there the listeners are counted first, and nothing is
-- said where nobody would hear.
local function publish(ask, token, f)
  local apart = redis.set_repl and pcall(redis.set_repl, redis.REPL_NONE)
  if not apart then
    local counts = redis.pcall('PUBSUB', 'NUMSUB', channel(token))
    if (counts[2] or 0) == 0 then return 0 end
  end
  local heard = redis.pcall('PUBLISH', channel(token),
    string.format('g %.0f %s', f, token))
  if apart then redis.set_repl(redis.REPL_ALL) end
  return tonumber(heard) or ask('PUBLISH', channel(token), '')
end
