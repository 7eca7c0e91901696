-- Needs: call, L, N.

-- The holder changed: tells at most 1,000 clients that asked to be told. They
-- ask anew for the next change.
local told
local function tell()
  if told then return end
  told = true
  if call('EXISTS', N) == 0 then return end
  for _, c in ipairs(call('ZRANGE', N, 0, 999)) do
    call('PUBLISH', c, 'c ' .. L)
  end
  call('DEL', N)
end
