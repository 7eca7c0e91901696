-- Needs: call, F, memory. The counter stays for so many ms from now at least:
-- longer than what its caller holds, and never for less than it had.
local function remember()
  call('PEXPIRE', F, math.max(call('PTTL', F), memory))
end
