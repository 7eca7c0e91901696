-- Fences below FIRST were counted without a seed (see fence), and from END on
-- there are none (see counter).
local FIRST, END = 1000000000000, 100000000000000
-- For how many ms a hand-off is good, for who wants to hold for no less; and to
-- be believed to live, for who joins.
local CLAIM = '1000'
