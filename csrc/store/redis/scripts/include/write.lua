-- Needs: call, I. A full server refuses what takes memory, but not to a script
-- that has written: so this comes first, and changes nothing.
local function write_first() call('HDEL', I, '') end
