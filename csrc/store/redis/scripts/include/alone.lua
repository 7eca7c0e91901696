-- The reply where KEYS[1] has another value than a token's. A shared lock is an
-- error: a downgrade may have made the token one of the holders, and another
-- name has these.
local function not_alone(value)
  local shared = value and value:sub(1, 2) == '~s'
  return shared and { err = 'TRYAGAIN the lock is shared' } or -1
end
