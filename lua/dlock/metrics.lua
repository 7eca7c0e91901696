-- dlock.prometheus. With `shared` each worker puts its counts into that
-- lua_shared_dict under its number, and the page shows all. An exiting worker
-- puts nothing: its successor has the number already.
local core = require "dlock.core"
local misuse = require "dlock.misuse"
local results = require "dlock.results"
local stats = require "dlock.stats"
local store = require "dlock.store"
local text = require "dlock.text"

---@class dlock.prometheus_list
---@field [integer] dlock.store
---@field shared? string a lua_shared_dict: all workers of nginx on one page

local metrics, fail = {}, results.fail

local ngx = rawget(_G, "ngx")

local function raise(message, ...)
  misuse.raise("dlock.prometheus takes an array of stores" .. message, ...)
end

local function check(list)
  if type(list) ~= "table" or store.client(list) then
    raise(", not a %s", type(list) == "table" and "store" or type(list))
  elseif list[1] == nil then
    raise("; this one is empty")
  end
  for name, one in next, list do
    if name == "shared" then
      if type(one) ~= "string" then
        raise(", and in `shared` the name of a lua_shared_dict, not a %s",
          type(one))
      end
    elseif type(name) ~= "number" or not store.client(one) then
      raise("; what stands in [%s] is none", text.of_error(name))
    end
  end
end

-- Stores that share an engine count once.
local function count(list)
  local stores, seen = {}, {}
  for _, one in ipairs(list) do
    local client = store.client(one)
    if not seen[client.engine] then
      seen[client.engine] = true
      local found, message, code = one:stats()
      if not found then return nil, message, code end
      stores[#stores + 1] = { found = found, id = client.id,
        prefix = client.prefix }
    end
  end
  return stores
end

local function key_of(worker, name)
  return ("dlock:%d:%s"):format(worker, name)
end

local function publish(dict, part, worker)
  for _, name in ipairs(stats.names()) do
    local ok, problem = dict:safe_set(key_of(worker, name), part[name])
    if not ok then
      return fail("unavailable", ("the lua_shared_dict of dlock.prometheus"
        .. " takes no more (%s): make it larger"):format(problem))
    end
  end
  return true
end

local function collect(dict)
  local parts = {}
  for worker = 0, ngx.worker.count() - 1 do
    local part = {}
    for _, name in ipairs(stats.names()) do
      part[name] = dict:get(key_of(worker, name)) or ""
    end
    parts[#parts + 1] = part
  end
  return parts
end

local function of_all_workers(stores, name)
  local worker = ngx and ngx.worker and ngx.worker.id and ngx.worker.id()
  if not worker then
    return fail("unsupported",
      "`shared` is for the workers of nginx; leave it out here")
  end
  local dict = ngx.shared[name]
  if not dict then
    return fail("invalid",
      "nginx.conf has no lua_shared_dict " .. text.quote(name))
  end
  if not ngx.worker.exiting() then
    local ok, message, code = publish(dict,
      stats.part(stores, ('worker="%d"'):format(worker)), worker)
    if not ok then return nil, message, code end
  end
  return stats.page(collect(dict))
end

function metrics.page(list)
  check(list)
  local stores, message, code = count(list)
  if not stores then
    return nil, message, code
  elseif list.shared then
    return of_all_workers(stores, list.shared)
  end
  return stats.page { stats.part(stores, ('pid="%d"'):format(core.pid())) }
end

return metrics
