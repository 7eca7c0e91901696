-- Needs: call, F, memory. The counter stays for so many ms, less a twentieth so
-- that this is not done each time; never for less than it had. more: ms on top.
local function remember(more)
  local least = memory * 0.95 + (more or 0)
  if call('PTTL', F) < least then
    call('PEXPIRE', F, memory + (more or 0))
  end
end
