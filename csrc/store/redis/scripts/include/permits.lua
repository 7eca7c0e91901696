-- Needs: call, P.
--@include number
-- The units in use and their limit (0: none), if value, which L holds, is the
-- marker of those who share that P names. nil else, also where what P says can
-- not be ours: the key is then held by another's value, as one that no P names.
local function shared_by(value)
  if not value or string.sub(value, 1, 2) ~= '~s' then return end
  local p = call('HMGET', P, 'g', 'u', 'cap')
  local used, cap = number_of(p[2]), number_of(p[3])
  if p[1] and value == '~s' .. p[1] and used and cap then return used, cap end
end
