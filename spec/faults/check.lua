-- Part of `make lint`: every fault of the simulations can be put in. A run
-- looks for a part of them only, drawn by lot, so a text that has moved on
-- would be seen by the unlucky.

package.path = "./?.lua;" .. package.path

local edit = require "spec.support.edit"
local files = require "spec.support.files"

local SCRIPTS = "csrc/store/redis/scripts"

local bad, count = 0, 0

local function complain(fault, problem)
  bad = bad + 1
  print(("%s: %s"):format(fault.name, problem))
end

local function check(fault)
  if fault.lax then
    return -- of the simulated world, not of the code
  end
  count = count + 1
  local texts = {}
  for _, change in ipairs(fault.edits or { fault }) do
    local text = texts[change.file]
      or assert(files.read(change.file))
    local changed, problem = edit.apply(text, change)
    if not changed then
      return complain(fault, change.file .. " " .. problem)
    end
    texts[change.file] = changed
  end
end

-- A list of faults, or lists by a name.
local function check_all(list)
  for _, one in pairs(list) do
    if one.name then check(one) else check_all(one) end
  end
end

local function check_scripts(list)
  local all, pipe = {}, assert(io.popen("find " .. SCRIPTS .. " -name '*.lua'"))
  for path in pipe:lines() do
    all[#all + 1] = assert(files.read(path))
  end
  pipe:close()
  for _, fault in ipairs(list) do
    count = count + 1
    local places = 0
    for _, text in ipairs(all) do
      places = places + (edit.apply(text, fault) and 1 or 0)
    end
    if places == 0 then
      complain(fault, "no script has: " .. fault.find)
    end
  end
end

check_all(require "spec.faults.consul")
check_all(require "spec.faults.etcd")
check_all(require "spec.faults.queues")
check_all(require "spec.faults.redis_client")
check_all(require "spec.faults.redis_cluster")
check_all(require "spec.faults.zookeeper")
check_scripts(require "spec.faults.redis_scripts")
print(("%d faults, %d cannot be put in"):format(count, bad))
os.exit(bad == 0)
