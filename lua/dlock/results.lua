-- A public call returns one value on success, else nil, message, code, without
-- nils at the end: a program may count results. Inside dlock three values are
-- passed.

---@alias dlock.code
---| "busy"        # a try: somebody else holds it now
---| "timeout"     # waited `timeout` seconds; nothing is left behind
---| "cancelled"   # the wait was cancelled, or its store closed
---| "lost"        # the lease is not ours any more
---| "unavailable" # the store cannot be reached, or cannot serve
---| "denied"      # authentication or permissions refused us
---| "invalid"     # a URL, key or value that cannot be used
---| "closed"      # the store was closed
---| "forked"      # made and used before a `fork()`, used in the child
---| "unsupported" # this store or host cannot do that; the
--- message says what can

local results = {}

--- A failure, whose text begins with its code.
function results.fail(code, text)
  return nil, code .. ": " .. text, code
end

---@param second any a message; or the cursor of a list
function results.of(first, second, code)
  if code ~= nil then
    return first, second, code
  elseif second ~= nil then
    return first, second
  end
  return first
end

return results
