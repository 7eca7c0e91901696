-- The etcd or the Consul store, as shipped, in the random histories of the
-- recipe (spec/sim/zookeeper_recipe.c), on servers that do what calls cross,
-- what is lost, and what of a lost connection is done later
-- (spec/c/etcd_server.c, consul_server.c). DLOCK_SIM and DLOCK_SIM_SEED: see
-- zookeeper_spec.

local assert = require "luassert"
local process = require "spec.support.process"
local program = require "spec.sim.program"
local seeds = require "spec.sim.seeds"
local server = require "spec.support.server"

local driven = {}
driven.__index = driven

local COUNT = tonumber(os.getenv("DLOCK_SIM")) or 2500
local LOOK = _VERSION == "Lua 5.4"
local ENOUGH = 20000 -- histories in which a fault must show

local function output(command)
  local status, text = process.run { command = { "sh", "-c", command } }
  return status == 0 and (text:gsub("%s+$", "")) or ""
end

--- name: the store's folder; other: that of the other one; packages: for
--- pkg-config.
function driven.new(name, other, packages)
  local self = setmetatable({ name = name, dir = server.new_dir() }, driven)
  self.sources = { "spec/sim/zookeeper_recipe.c",
    "spec/c/" .. name .. "_server.c", "spec/sim/plain.c", "spec/c/host.c" }
  for file in output("find csrc/core csrc/store/kit csrc/store/session"
    .. " -name '*.c' ! -path '*/conn/*' ! -path '*/" .. other .. "/*'")
      :gmatch("%S+") do
    self.sources[#self.sources + 1] = file
  end
  self.flags = ("-DSIM_%s -DDLK_SS_WATCH_MAX=2 -Ispec/c "):format(name:upper())
    .. output("pkg-config --cflags " .. packages)
  self.libs = output("pkg-config --libs " .. packages)
  return self
end

function driven:close()
  server.remove_dir(self.dir)
end

function driven:build(as, fault)
  return program.build(self.dir, as, self.sources, fault, self.flags, self.libs)
end

--- It has no two holders and no lost wait.
function driven:holds()
  local path = self:build(self.name)
  local first, count = seeds.draw(self.name, COUNT)
  local ok, text = program.run(path, count, first)
  assert.is_true(ok, seeds.advise(text))
end

--- Those that this run looks for.
function driven.faults(all)
  return LOOK and seeds.faults(all) or {}
end

function driven:would_notice(fault)
  self.built = (self.built or 0) + 1
  local ok, text = program.run(self:build(self.name .. self.built, fault),
    ENOUGH)
  assert.is_false(ok)
  assert.matches("seed %d+: ", text)
end

return driven
