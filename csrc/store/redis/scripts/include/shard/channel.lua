-- Needs: F. The sharded channel of a token's client: it is in the key's slot.
local function channel(token)
  return string.sub(F, 1, 16) .. 'c:' .. string.sub(token, 34, 49)
end
