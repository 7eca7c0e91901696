-- The store that all of this server's modules share.
local dlock = require "dlock"

return assert(dlock.open())
