-- How many holders, and waiters, a request looks at.
local SHOWN = 1000
