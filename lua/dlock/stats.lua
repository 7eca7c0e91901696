-- A store's counters for people and for a /metrics page. Each process counts
-- for itself, so the text names the process: several workers of nginx are
-- several series.
local core = require "dlock.core"
local text = require "dlock.text"

local stats = {}

local COUNTERS = {
  { "lost", "dlock_leases_lost_total", "Leases lost before their release." },
  { "renewed", "dlock_renewals_total", "Renewals that were answered." },
  { "renew_failed", "dlock_renewals_failed_total", "Renewals that failed." },
  { "local_handoffs", "dlock_local_handoffs_total",
    "Leases that were handed to another waiter of this process." },
  { "degraded", "dlock_leases_degraded_total",
    "Locks that dlock.fallback gave because this store was unavailable." },
}

local HISTOGRAMS = {
  { "wait", "dlock_wait_seconds", "Time from asking to having the lock." },
  { "hold", "dlock_hold_seconds", "Time a lock was held." },
}

-- In a label's quotes.
local function escape(value)
  return (value:gsub('[\\"\n]', { ["\\"] = "\\\\", ['"'] = '\\"',
    ["\n"] = "\\n" }))
end

local function header(out, name, kind, help)
  out[#out + 1] = ("# HELP %s %s"):format(name, help)
  out[#out + 1] = ("# TYPE %s %s"):format(name, kind)
end

local function line(out, name, labels, value)
  out[#out + 1] = ("%s{%s} %s"):format(name, labels, text.number(value))
end

local function histogram(out, name, labels, found)
  for _, bucket in ipairs(found.buckets) do
    local le = bucket.le == math.huge and "+Inf" or text.number(bucket.le)
    line(out, name .. "_bucket", ('%s,le="%s"'):format(labels, le),
      bucket.count)
  end
  line(out, name .. "_sum", labels, found.sum)
  line(out, name .. "_count", labels, found.count)
end

--- The text format of Prometheus.
---@param found table what engine:stats() returned
---@param shown string the store's URL without secrets
---@return string
function stats.prometheus(found, shown)
  local out = {}
  local labels = ('store="%s",pid="%d"'):format(escape(shown), core.pid())
  header(out, "dlock_acquires_total", "counter",
    "Attempts to get a lock, by how they ended.")
  local results = {}
  for result in pairs(found.acquires) do results[#results + 1] = result end
  table.sort(results)
  for _, result in ipairs(results) do
    line(out, "dlock_acquires_total", ('%s,result="%s"'):format(labels, result),
      found.acquires[result])
  end
  header(out, "dlock_leases_held", "gauge", "Leases held now.")
  line(out, "dlock_leases_held", labels, found.held)
  for _, one in ipairs(COUNTERS) do
    header(out, one[2], "counter", one[3])
    line(out, one[2], labels, found[one[1]])
  end
  for _, one in ipairs(HISTOGRAMS) do
    header(out, one[2], "histogram", one[3])
    histogram(out, one[2], labels, found[one[1]])
  end
  return table.concat(out, "\n") .. "\n"
end

return stats
