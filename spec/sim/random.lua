-- A generator that gives the same numbers on every Lua.
local random = {}
random.__index = random

function random.new(seed)
  local r = setmetatable({ state = seed % 2147483646 + 1 }, random)
  for _ = 1, 5 do
    r:next()
  end
  return r
end

-- In [0, 1).
function random:next()
  self.state = self.state * 16807 % 2147483647
  return (self.state - 1) / 2147483646
end

return random
