-- Needs: call, I. A server that is full refuses what takes memory, but not to a
-- script that has written before: so this comes first, and changes nothing.
local function write_first() call('HDEL', I, '') end
