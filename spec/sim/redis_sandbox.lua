-- What a server script sees of the Redis in plain Lua (redis_model), and what a
-- client gets of its result. As on a server a script can make no globals, and
-- catches what a command says. It does not catch what the model refuses to
-- know, nor a mistake of its own code, so no simulation passes with these.

local sandbox = {}

local unpack = table.unpack or unpack

function sandbox.compile(text, name, env)
  if setfenv then
    return setfenv(assert(loadstring(text, "@" .. name)), env)
  end
  return assert(load(text, "@" .. name, "t", env))
end

local function no_global(_, name)
  error("Script attempted to access nonexistent global variable '"
    .. tostring(name) .. "'", 2)
end

-- What pcall gives: nothing but what a command, or the script itself, says.
local function caught(ok, found, ...)
  local said = type(found) == "table" and found.err
    or type(found) == "string" and found:find("~counter~", 1, true)
  if not ok and not said then
    error(found, 0)
  end
  return ok, found, ...
end

--- The globals of the scripts of a model; and a table in which it puts what is
-- given to one.
function sandbox.of(db)
  local env = { unpack = unpack, pcall = function(...)
    return caught(pcall(...))
  end, redis = {
    REPL_NONE = "none", REPL_ALL = "all",
    set_repl = function(to) db.replicates = to == "all" end,
    call = function(...) return db:call(...) end,
    pcall = function(...)
      local ok, reply = pcall(db.call, db, ...)
      if not ok and not (type(reply) == "table" and reply.err) then
        error(reply, 0)
      end
      return reply
    end,
  } }
  for name in ("assert error ipairs math next pairs select string table "
      .. "tonumber tostring type"):gmatch("%a+") do
    env[name] = _G[name]
  end
  local given = {}
  return setmetatable({}, { __index = function(_, name)
    local value = env[name]
    if value == nil then
      value = given[name]
    end
    return value == nil and no_global(_, name) or value
  end, __newindex = no_global }), given
end

-- What a client gets for a script's result.
function sandbox.outward(v)
  local kind = type(v)
  if kind == "number" then
    return v < 0 and math.ceil(v) or math.floor(v)
  elseif kind == "boolean" then
    return v and 1 or false
  elseif kind ~= "table" or v.ok or v.err then
    return v
  end
  local out = {}
  for i, item in ipairs(v) do
    out[i] = sandbox.outward(item)
  end
  return out
end

return sandbox
