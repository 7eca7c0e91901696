-- Needs: channel. How many heard that the lock is theirs. ask: redis.call, or
-- redis.pcall, which repeats a refusal in the server's words.
--
-- PUBLISH must not be replicated: a subscriber on a replica (conn/net.c, I3)
-- would start a hold that we undo, because no listener of this server heard of
-- it. A server that cannot keep it from replicas is asked for listeners first.
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
