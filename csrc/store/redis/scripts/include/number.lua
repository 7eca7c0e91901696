-- A number as we write it into a hash: digits and nothing else, few enough to
-- be exact. nil for what another program wrote there, though Lua may take it
-- for a number ('1e3', '0x10', 'inf', '-1'), and for what is not there (false).
local function number_of(text)
  return text and #text < 16 and text:find('^%d+$') and tonumber(text) or nil
end
