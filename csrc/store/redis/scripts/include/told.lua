-- Needs: clock, L, N. What others hear of a holder.
--@include tell

-- The note of a hold, for inspect: fence, since when, value.
local function note_of(f, value)
  return digits(f) .. ' ' .. digits(now) .. ' ' .. (value or '')
end
