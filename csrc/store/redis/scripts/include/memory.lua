-- Needs: call, F, memory. The counter stays for so many ms from now, but for a
-- twentieth that may have gone by already, so that this need not be done each
-- time: longer than what its caller holds, and never for less than it had.
local function remember()
  if call('PTTL', F) < memory * 0.95 then call('PEXPIRE', F, memory) end
end
