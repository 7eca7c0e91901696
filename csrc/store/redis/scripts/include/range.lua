-- Fences below FIRST are of a counter that did not begin at the clock
-- (fence.lua); from END on there are none (counter.lua).
local FIRST, END = 1000000000000, 100000000000000
