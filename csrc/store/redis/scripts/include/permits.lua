-- Needs: call, P.
--@include number
-- The units in use and their limit (0: none), if L's value is the marker that P
-- names and P can be ours. nil else: the value is then another's hold.
local function shared_by(value)
  if not value or string.sub(value, 1, 2) ~= '~s' then return end
  local p = call('HMGET', P, 'g', 'u', 'cap')
  local used, cap = number_of(p[2]), number_of(p[3])
  if p[1] and value == '~s' .. p[1] and used and cap then return used, cap end
end
