-- How many holders, and waiters, one request looks at.
local SHOWN = 1000
