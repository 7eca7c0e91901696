-- What TLS adds to an uncontended pair: dlock with it against dlock without it,
-- and, since neither OpenSSL's work nor the server's can change, against the
-- floor that does the same (bench/floor_redis.c). And what a connection costs
-- before its first request, new and resumed.

local certificates = require "spec.support.certificates"
local costs = require "bench.costs"
local figures = require "bench.figures"
local process = require "spec.support.process"
local programs = require "bench.programs"
local redis = require "spec.support.redis"
local settings = require "bench.settings"
local uncontended = require "bench.pairs"

local CONNECTS = 40

local tls = {}

-- The CAs come by the environment: workers are told a URL and nothing else.
local function with_ca(program, ca)
  local env = { SSL_CERT_FILE = ca }
  for name, value in pairs(program.env) do env[name] = value end
  return { command = program.command, env = env }
end

local function contenders(private, ca, counters)
  local function one(name, kind, program)
    return { name = name, counters = counters,
      figures = costs.of_redis(kind), program = function() return program end }
  end
  local list = { floor = {
    one("floor (C)", "fence", programs.floor("redis", private.port, "fence")),
    one("floor (C), TLS", "fence",
      programs.floor("redis", private.tls_port, "fence", ca)) } }
  for _, lua in ipairs(settings.luas) do
    local function worker(url)
      return with_ca(programs.lua(lua, "bench/worker.lua", url, "pairs"), ca)
    end
    list[lua] = { one("dlock " .. lua, "dlock", worker(private.url)),
      one("dlock " .. lua .. ", TLS", "dlock", worker(private.tls_url)) }
  end
  return list
end

-- A connection that its server closes again and again.
local CONNECT = [[
  local dlock = require "dlock"
  local redis = require "spec.support.redis"
  local store = assert(dlock.open(arg[1]))
  local admin = assert(redis.connect(arg[2]))
  for _ = 1, tonumber(arg[3]) do
    assert(store:ping(5))
    admin:call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
  end
  store:close() ]]

local COMPUTED = "net tls the store: (%S+), (%a+), thread %d+,"
  .. " computed for (%S+) ms, at most (%S+) at a time"

local function connects(private, ca)
  local program = programs.lua("lua5.4")
  local env = with_ca(program, ca).env
  env.DLOCK_TRACE = "1"
  local _, _, err = process.run { script = CONNECT, env = env, timeout = 60,
    args = { private.tls_url, private.url, CONNECTS } }
  local first, steps, longest, protocol = nil, {}, {}, nil
  for version, how, all, most in err:gmatch(COMPUTED) do
    protocol = version
    if how == "resumed" then
      steps[#steps + 1], longest[#longest + 1] = tonumber(all), tonumber(most)
    else
      first = first or ("%s ms in all, %s at a time"):format(all, most)
    end
  end
  assert(first and #steps > 0, err)
  figures.say("Redis, %s, the client's processor time for a handshake: the"
    .. " first %s (with the reading of the CAs); resumed, median of %d, %.3f"
    .. " ms in all, %.3f at a time, %.3f at most", protocol, first, #steps,
    figures.median(steps), figures.median(longest), longest[#longest])
end

local function measure(private, ca)
  local admin = private:connect()
  local list = contenders(private, ca, costs.redis(admin))
  uncontended.compare("Redis, the floor with TLS to that without it",
    list.floor, 1)
  for _, lua in ipairs(settings.luas) do
    uncontended.compare("Redis, dlock with TLS to that without it", list[lua],
      1)
    uncontended.compare("Redis, dlock with TLS to the floor with TLS",
      { list.floor[2], list[lua][2] }, 1)
  end
  uncontended.count { list.floor[1], list.floor[2],
    list[settings.luas[1]][1], list[settings.luas[1]][2] }
  connects(private, ca)
  admin:close()
end

--- Starts a server of its own.
function tls.redis()
  local made = certificates.make()
  local private = redis.start(made:server "server")
  local ok, problem = pcall(measure, private, made:path "ca.crt")
  private:stop()
  made:remove()
  return ok or error(problem, 0)
end

return tls
