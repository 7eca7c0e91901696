-- Needs: call, F, memory. The counter stays for so many ms from now, but for a
-- twentieth that may have gone by already, so that this need not be done each
-- time: longer than what its caller holds, and never for less than it had.
-- more: so many ms are added to both.
local function remember(more)
  local least = memory * 0.95 + (more or 0)
  if call('PTTL', F) < least then
    call('PEXPIRE', F, memory + (more or 0))
  end
end
