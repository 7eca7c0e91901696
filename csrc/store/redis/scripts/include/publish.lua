-- Needs: channel. How many heard that it is theirs. ask: redis.call, or
-- redis.pcall.
--
-- What nobody heard is taken back, so nobody may hear it: those who count are
-- this server's listeners, and a replica would pass the message on to its own
-- as well. The connection for messages may stand there (see apart.c), and who
-- waits would begin a hold that is another one's by then. So the message alone
-- is kept from the replicas. What is written behind it goes to them again,
-- whatever became of the message; one that was refused is refused once more,
-- in the server's own words.
local function publish(ask, token, f)
  redis.set_repl(redis.REPL_NONE)
  local heard = redis.pcall('PUBLISH', channel(token),
    string.format('g %.0f %s', f, token))
  redis.set_repl(redis.REPL_ALL)
  return tonumber(heard) or ask('PUBLISH', channel(token), '')
end
