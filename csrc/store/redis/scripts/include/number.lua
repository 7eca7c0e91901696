-- A number as we write it: few enough digits to be exact. nil for all else that
-- Lua takes for a number ('1e3', '0x10', 'inf', '-1'), and for false.
local function number_of(text)
  return text and #text < 16 and text:find('^%d+$') and tonumber(text) or nil
end
