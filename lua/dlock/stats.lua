-- Text for Prometheus. A page has a metric's HELP and TYPE once, then the
-- series of all stores. Store (its id), prefix and process name a series; equal
-- names add up.
local text = require "dlock.text"

---@class dlock.histogram
---@field count integer
---@field sum number seconds
---@field buckets {le: number, count: integer}[] counts up to each bound

---@class dlock.stats
---@field acquires table<string, integer> by code, "granted" and "served"
---@field held integer
---@field lost integer
---@field renewed integer
---@field renew_failed integer
---@field local_handoffs integer leases that were handed to a local waiter
---@field degraded integer locks that dlock.fallback gave instead
---@field wait dlock.histogram
---@field hold dlock.histogram

local stats = {}

-- Each calls add(suffix, more labels, number).
local function single(value, add)
  add("", "", value)
end

local function by_result(counts, add)
  local results = {}
  for result in pairs(counts) do results[#results + 1] = result end
  table.sort(results)
  for _, result in ipairs(results) do
    add("", (',result="%s"'):format(result), counts[result])
  end
end

local function histogram(value, add)
  for _, bucket in ipairs(value.buckets) do
    local le = bucket.le == math.huge and "+Inf" or text.number(bucket.le)
    add("_bucket", (',le="%s"'):format(le), bucket.count)
  end
  add("_sum", "", value.sum)
  add("_count", "", value.count)
end

local METRICS = {
  { of = "acquires", name = "dlock_acquires_total", type = "counter",
    help = "Attempts to get a lock, by how they ended.", samples = by_result },
  { of = "held", name = "dlock_leases_held", type = "gauge",
    help = "Leases held now.", samples = single },
  { of = "lost", name = "dlock_leases_lost_total", type = "counter",
    help = "Leases lost before their release.", samples = single },
  { of = "renewed", name = "dlock_renewals_total", type = "counter",
    help = "Renewals that were answered.", samples = single },
  { of = "renew_failed", name = "dlock_renewals_failed_total",
    type = "counter", help = "Renewals that failed.", samples = single },
  { of = "local_handoffs", name = "dlock_local_handoffs_total",
    type = "counter", samples = single,
    help = "Leases that were handed to another waiter of this process." },
  { of = "degraded", name = "dlock_leases_degraded_total", type = "counter",
    samples = single,
    help = "Locks that dlock.fallback gave because this store was"
      .. " unavailable." },
  { of = "wait", name = "dlock_wait_seconds", type = "histogram",
    help = "Time from asking to having the lock.", samples = histogram },
  { of = "hold", name = "dlock_hold_seconds", type = "histogram",
    help = "Time a lock was held.", samples = histogram },
}

function stats.label(value)
  return (value:gsub('[\\"\n]', { ["\\"] = "\\\\", ['"'] = '\\"',
    ["\n"] = "\\n" }))
end

local function lines(metric, stores, process)
  local order, sums = {}, {}
  for _, one in ipairs(stores) do
    local labels = ('store="%s",prefix="%s",%s'):format(stats.label(one.id),
      stats.label(one.prefix), process)
    metric.samples(one.found[metric.of], function(suffix, more, value)
      local series = ("%s%s{%s%s}"):format(metric.name, suffix, labels, more)
      if not sums[series] then
        order[#order + 1] = series
      end
      sums[series] = (sums[series] or 0) + value
    end)
  end
  for i, series in ipairs(order) do
    order[i] = ("%s %s\n"):format(series, text.number(sums[series]))
  end
  return table.concat(order)
end

--- A process's lines by the names of metrics.
---@param stores table[] { found = what store:stats() gives, id =, prefix = }
function stats.part(stores, process)
  local part = {}
  for _, metric in ipairs(METRICS) do
    part[metric.name] = lines(metric, stores, process)
  end
  return part
end

function stats.page(parts)
  local out = {}
  for _, metric in ipairs(METRICS) do
    out[#out + 1] = ("# HELP %s %s\n# TYPE %s %s\n"):format(metric.name,
      metric.help, metric.name, metric.type)
    for _, part in ipairs(parts) do
      out[#out + 1] = part[metric.name]
    end
  end
  return table.concat(out)
end

function stats.names()
  local names = {}
  for i, metric in ipairs(METRICS) do names[i] = metric.name end
  return names
end

return stats
