-- Needs: call, Q, W. How those who wait stand there.
--
-- Q has the tokens by their order, in microseconds. Who joins for an exclusive
-- hold, as most do, is not written down besides: its order says when it asked,
-- and it is believed to live for a second from then. A half is added to the
-- order of all others, and of these W says how they stand there.
local function is_noted(score) return score % 1 ~= 0 end

-- How a waiter stands there: seen, when it asked last, 0: it was believed again
-- since; believed, until when it is believed to live (W has the span from the
-- one to the other); units, cap, claim; value, what it publishes, nil if
-- nothing. By its order and what W says; nil if W says nothing, or a claim that
-- is none: it may be dead, and nobody would end a hold that it has for longer.
local function standing(score, said)
  if score and not is_noted(score) then
    local seen = math.floor(score / 1000)
    return { believed = seen + 1000, units = 0, cap = 0, claim = CLAIM,
      seen = seen }
  end
  local seen, span, units, cap, claim, at =
    (said or ''):match('^(%d+) (%d+) (%d+) (%d+) ([1-9]%d?%d?%d?)%f[%D]()')
  return seen and { believed = seen + span, units = tonumber(units),
    cap = tonumber(cap), claim = claim, seen = tonumber(seen),
    value = #said >= at and string.sub(said, at + 1) or nil }
end

local function waiter(token, score)
  return standing(score, is_noted(score) and call('HGET', W, token))
end
