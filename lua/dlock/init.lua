-- docs/reference.md has every call, docs/guarantees.md the promises.
local all = require "dlock.kinds.all"
local canceller = require "dlock.canceller"
local core = require "dlock.core"
local fallback = require "dlock.kinds.fallback"
local logger = require "dlock.logger"
local metrics = require "dlock.metrics"
local misuse = require "dlock.misuse"
local open = require "dlock.open"
local options = require "dlock.options"
local results = require "dlock.results"
local text = require "dlock.text"
local version = require "dlock.version"

---@class dlock
---@field VERSION string
local dlock = { VERSION = version }

local function no_colon(first, call)
  if first == dlock then
    misuse.raise("call it with a dot, as in dlock.%s(...)", call)
  end
end

--- Opens a store; connects at the first use, so there is no I/O here.
---@param where? string|dlock.open_options the URL ($DLOCK_URL, else the
--- embedded store of this user), or a table of options with `url` in it
---@nodiscard
---@return dlock.store|nil store
---@return string? message
---@return dlock.code? code invalid, unsupported
function dlock.open(where, ...)
  no_colon(where, "open")
  return results.of(open(where, ...))
end

--- Something to end waits with: acquire{ cancel = c }, then c:cancel().
---@return dlock.canceller
function dlock.canceller(...)
  no_colon((...), "canceller")
  options.check_end((...), "dlock.canceller", "no argument")
  return canceller.new()
end

--- Several locks of any stores as one: all of them or none.
---@param list dlock.lockable[] no lock twice
---@return dlock.all
function dlock.all(list, ...)
  no_colon(list, "all")
  options.check_end((...), "dlock.all", "one array of lockables")
  return all.new(list)
end

--- A lock, and others in its place while its store is unavailable. Between
--- those who hold the first and those who hold another there is no exclusion.
---@param list dlock.fallback_list
---@return dlock.lockable|nil
---@return string? message
---@return dlock.code? code invalid
function dlock.fallback(list, ...)
  no_colon(list, "fallback")
  options.check_end((...), "dlock.fallback",
    "one array of lockables with the options in it")
  return results.of(fallback.new(list))
end

--- What several stores have counted, as one /metrics page, which has the HELP
--- and TYPE of a metric once. `shared` names a lua_shared_dict by which each
--- worker of nginx shows what all of them have counted. No I/O.
---@param list dlock.prometheus_list
---@return string|nil page
---@return string? message
---@return dlock.code? code invalid, unsupported, unavailable, closed
function dlock.prometheus(list, ...)
  no_colon(list, "prometheus")
  options.check_end((...), "dlock.prometheus",
    "one array of stores with `shared` in it")
  return results.of(metrics.page(list))
end

--- Has the process give back what it holds at these signals, which then do
--- what they did before: the default ends the process, a handler runs. Stores
--- are closed by that. A signal that is ignored stays so.
---@param ... "TERM"|"INT"|"HUP"|"QUIT"|"USR1"|"USR2"|"ALRM"
---@return true|nil
---@return string? message
---@return dlock.code? code unsupported, unavailable
function dlock.release_on(...)
  no_colon((...), "release_on")
  local given = { ... }
  for i = 1, math.max(select("#", ...), 1) do
    if not core.signal_number(given[i]) then
      misuse.raise('dlock.release_on takes names of signals ("TERM", "INT",'
        .. ' "HUP", "QUIT", "USR1", "USR2", "ALRM"), not %s',
        type(given[i]) == "string" and text.quote(given[i])
          or "a " .. type(given[i]))
    end
  end
  if rawget(_G, "ngx") and ngx.get_phase then
    return results.fail("unsupported", "nginx has its own signals, and a"
      .. " worker that ends gives back what it holds")
  end
  return core.release_on(...)
end

--- An on_event that writes each event as a line of JSON.
---@param file? file* (nginx's error log, elsewhere standard error)
---@return fun(event: dlock.event)
function dlock.logger(file, ...)
  no_colon(file, "logger")
  options.check_end((...), "dlock.logger", "an open file")
  return logger.new(file)
end

return dlock
