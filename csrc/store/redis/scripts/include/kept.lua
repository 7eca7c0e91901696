-- ms for which a join or a refresh keeps the queue, and how old that may get.
local KEPT, AGING = '60000', 8000
-- Whether two moments, in us, are in one span of AGING: the first request in it
-- has kept the queue.
local function same_span(a, b)
  return math.floor(a / (AGING * 1000)) == math.floor(b / (AGING * 1000))
end
