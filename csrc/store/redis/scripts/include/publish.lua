-- Needs: channel. How many heard that it is theirs. ask: redis.call, or
-- redis.pcall.
local function publish(ask, token, f)
  return ask('PUBLISH', channel(token), string.format('g %.0f %s', f, token))
end
