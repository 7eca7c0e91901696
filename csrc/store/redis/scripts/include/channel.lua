-- The channel of a token's client (see ours).
local function channel(token)
  return '~dlock:c:' .. string.sub(token, 34, 49)
end
