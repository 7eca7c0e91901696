-- Needs: call, F. What a counter of fences is, and what is none: INCRBY says
-- so, which takes an integer of 64 bits, written in digits and in nothing else;
-- and the next fence is below 10^14, because from there on they would not be
-- exact on every Lua.

-- What it shows, where it is written as a grant leaves it; else nil and what
-- stands there. That may be a counter all the same (below 1): count tells.
local function counter()
  local f = redis.pcall('GET', F)
  local n = type(f) == 'string' and #f < 15 and f:find('^[1-9]%d*$')
    and tonumber(f)
  if n and n + 1 < END then return n end
  return nil, f
end

-- Counts it up by n. What is no counter of ours raises an error that says why,
-- between two '~', for errors.c.
local function count(n)
  local f = redis.pcall('INCRBY', F, n)
  if type(f) == 'number' and f < END then return f end
  local said = type(f) == 'table' and f.err or 'overflow'
  if said:find('WRONGTYPE', 1, true) then error('~counter=type~') end
  local text = said:find('integer', 1, true) and call('GET', F)
  if text and not text:find('^[1-9]%d*$') then error('~counter=text~') end
  if text or said:find('overflow', 1, true) then error('~counter=large~') end
  return call('INCRBY', F, n) -- refused again, in the server's own words
end
