-- Fences below FIRST were counted without a seed (fence.lua); from END on there
-- are none (counter.lua).
local FIRST, END = 1000000000000, 100000000000000
