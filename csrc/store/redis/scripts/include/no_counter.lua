-- Needs: call, F. What is no counter of ours raises an error that says why,
-- between two '~', for errors.c. answer: what a command said of it, an error or
-- a number that is too large.
local function no_counter(answer)
  local said = type(answer) == 'table' and answer.err or 'overflow'
  local of = said:find('WRONGTYPE', 1, true) and redis.pcall('TYPE', F)
  if of then error('~counter=' .. (of.ok or 'another') .. '~') end
  if said:find('overflow', 1, true) then error('~counter=large~') end
  if said:find('integer', 1, true) then error('~counter=text~') end
end
