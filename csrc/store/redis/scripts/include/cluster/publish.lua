-- Needs: channel. As publish.lua, on a node of a cluster: PUBLISH goes to all
-- nodes, and counts this one's listeners. One that listens elsewhere must not
-- hear of a hold that we undo, so the listeners here are counted before.
local function publish(ask, token, f)
  local counts = redis.pcall('PUBSUB', 'NUMSUB', channel(token))
  if (counts[2] or 0) == 0 then return 0 end
  local heard = redis.pcall('PUBLISH', channel(token),
    string.format('g %.0f %s', f, token))
  return tonumber(heard) or ask('PUBLISH', channel(token), '')
end
