-- Prints dashboard.json, for Grafana: lua examples/metrics/make_dashboard.lua
local json = require "dlock.json"

local PANELS = {
  { "Attempts by result", "ops", { "{{result}}",
    "sum by (result) (rate(dlock_acquires_total[$__rate_interval]))" } },
  { "Leases held", "short",
    { "{{store}}", "sum by (store) (dlock_leases_held)" } },
  { "Wait", "s", { "median", "histogram_quantile(0.5, sum by (le)"
    .. " (rate(dlock_wait_seconds_bucket[$__rate_interval])))" },
    { "p99", "histogram_quantile(0.99, sum by (le)"
    .. " (rate(dlock_wait_seconds_bucket[$__rate_interval])))" } },
  { "Hold", "s", { "median", "histogram_quantile(0.5, sum by (le)"
    .. " (rate(dlock_hold_seconds_bucket[$__rate_interval])))" },
    { "p99", "histogram_quantile(0.99, sum by (le)"
    .. " (rate(dlock_hold_seconds_bucket[$__rate_interval])))" } },
  { "Leases lost", "short", { "{{store}}",
    "sum by (store) (increase(dlock_leases_lost_total[$__rate_interval]))" } },
  { "Renewals", "ops", { "answered",
    "sum (rate(dlock_renewals_total[$__rate_interval]))" }, { "failed",
    "sum (rate(dlock_renewals_failed_total[$__rate_interval]))" } },
  { "Hand-offs inside a process", "ops", { "{{store}}",
    "sum by (store) (rate(dlock_local_handoffs_total[$__rate_interval]))" } },
  { "Degraded leases", "short", { "{{store}}",
    "sum by (store)"
    .. " (increase(dlock_leases_degraded_total[$__rate_interval]))" } },
}

local panels = {}
for i, panel in ipairs(PANELS) do
  local targets = {}
  for j = 3, #panel do
    targets[#targets + 1] = { refId = string.char(62 + j), expr = panel[j][2],
      legendFormat = panel[j][1] }
  end
  panels[i] = { id = i, type = "timeseries", title = panel[1],
    targets = targets,
    datasource = { type = "prometheus", uid = "${source}" },
    fieldConfig = { defaults = { unit = panel[2] } },
    gridPos = { x = (i - 1) % 2 * 12, y = math.floor((i - 1) / 2) * 8, w = 12,
      h = 8 } }
end

io.write(json.encode { title = "dlock", uid = "dlock", schemaVersion = 38,
  time = { from = "now-1h", to = "now" }, refresh = "10s", panels = panels,
  templating = { list = { { name = "source", type = "datasource",
    query = "prometheus" } } } }, "\n")
