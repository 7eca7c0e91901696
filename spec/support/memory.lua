-- The test-only stores of spec/c for the Lua that runs: memory_store.c, where
-- a server would only be in the way, and model_store.c (support/model.lua).
local M = {}

local function lua_package()
  if rawget(_G, "jit") then return "luajit" end
  return "lua" .. _VERSION:match("%d+%.%d+")
end

-- What a function of the library gives. Whoever runs the specs has built it; a
-- run by hand builds it here.
local function open(name)
  local dir = assert(os.getenv("DLOCK_TEST_DIR"), "no DLOCK_TEST_DIR")
  local lua = lua_package()
  local path = ("%s/memory_store_%s.so"):format(dir, lua)
  local built = io.open(path)
  if built then
    built:close()
  else
    os.execute(("spec/c/build-memory %s %s"):format(lua, path))
  end
  return assert(package.loadlib(path, "luaopen_" .. name))()
end

-- The store type, for core.engine; also the `later` one, which was built for
-- another version, and the `model`.
function M.load(name)
  return open((name or "memory") .. "_store")
end

--- begin, own and finish of spec/c/scopes.c.
function M.scopes()
  return open "spec_scopes"
end

return M
