-- Fences below FIRST were counted without a seed (see fence), and from END on
-- there are none (see counter).
local FIRST, END = 1000000000000, 100000000000000
