-- dlock.core's engines without the store objects above them, for specs that
-- need many waits at once in one process, or an engine over a store in memory.
local core = require "dlock.core"
local options = require "dlock.options"

local engine = {}

--- core.engine with the usual defaults.
function engine.new(kind, conf)
  for _, name in ipairs { "connect_timeout", "io_timeout" } do
    conf[name] = conf[name] or options.default(name)
  end
  return core.engine(kind, conf)
end

--- The ticket of an acquire. o: options of an acquire; besides owner, units and
--- cap (0 and 0: exclusive), wait (true) and handoffs (0).
function engine.acquire(e, key, o)
  o = o or {}
  local base = options.defaults { fair = (o.handoffs or 0) == 0,
    local_handoffs = o.handoffs or 0 }
  local acquire = e:prepare(base, { units = 0, cap = 0 }, key, o.owner)
  return acquire(o.wait ~= false, o)
end

--- Runs its engine's loop until the ticket is done, and returns it.
function engine.drive(ticket)
  for _ = 1, 500 do
    if ticket:poll() then return ticket end
    core.drive(ticket, 0.2)
  end
  error("the ticket was never done")
end

--- The same, and takes the ticket's results.
function engine.finish(ticket)
  return engine.drive(ticket):take()
end

return engine
