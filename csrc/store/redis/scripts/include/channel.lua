-- Where the client of a token (see ours) is told.
local function channel(token)
  return '~dlock:c:' .. string.sub(token, 34, 49)
end
