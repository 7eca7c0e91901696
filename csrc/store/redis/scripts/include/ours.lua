-- Whether a value is a token of ours: 32 random digits, ':', its client's 16
-- digits, ':', an owner.
local function ours(token)
  return token:find('^' .. ('%x'):rep(32) .. ':' .. ('%x'):rep(16) .. ':')
end
