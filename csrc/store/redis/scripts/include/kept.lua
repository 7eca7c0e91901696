-- For how many ms a queue is kept by who joins it or asks, and how many of them
-- have to be over before it is given all of them again.
local KEPT, AGING = '60000', 8000
-- Whether two moments, in us, are in the same span of so many: then the first
-- one who came in it has seen to that.
local function same_span(a, b)
  return math.floor(a / (AGING * 1000)) == math.floor(b / (AGING * 1000))
end
