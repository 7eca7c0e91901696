-- Needs: call, F. The counter of fences.

-- The last fence; nil: none, or another program wrote it.
local function counter()
  local f = redis.pcall('GET', F)
  local n = type(f) == 'string' and #f < 15 and f:find('^[1-9]%d*$')
    and tonumber(f)
  return n and n + 1 < END and n or nil
end

-- Counts up by n. From END on fences are not exact on every Lua. errors.c knows
-- the error.
local function count(n)
  local f = call('INCRBY', F, n)
  if f >= END then error('~counter~') end
  return f
end
