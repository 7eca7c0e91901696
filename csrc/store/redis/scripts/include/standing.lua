-- Needs: call, Q, W. How a waiter stands in the queue.
--
-- Q has tokens by their order, in us. A plain waiter (exclusive, no value, a
-- claim of CLAIM) has nothing in W: its order says when it asked, and it counts
-- as alive for a second. Half a us marks the others, of which W tells.
local function is_noted(score) return score % 1 ~= 0 end

-- seen: the last request, 0: it was believed again since; believed: until when
-- it counts as alive; units, cap, claim; value, or nil. nil if W says nothing,
-- or no claim, since nobody would end its hold.
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
