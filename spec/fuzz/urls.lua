-- URLs, options and detached strings, changed at random. In Lua and without
-- libFuzzer, because all three are read by Lua code, or behind it: what is
-- looked for is an error where none may be, and a secret where it may be read.
--
-- - url.parse gives parts or says why not; parts written again parse the same.
-- - dlock.open gives a store, or says why not, or raises where its caller
--   misused it; a password is in no message and in no tostring.
-- - store:attach gives what was detached, or says why not.
--
-- usage: LUA spec/fuzz/urls.lua SECONDS [SEED]; DLOCK_TEST_REDIS: a server

package.path = "./?.lua;" .. package.path

local core = require "dlock.core"
local dlock = require "dlock"
local mutate = require "spec.fuzz.mutate"
local random = require "spec.sim.random"
local url = require "dlock.url"

local seconds = assert(tonumber(arg[1]), "for how many seconds?")
local seed = tonumber(arg[2]) or os.time() % 1000000
local r = random.new(seed)
local SECRET = "S3cr3tX"

local URLS = {
  "redis://127.0.0.1:6379/0", "redis://user:S3cr3tX@host:1/15",
  "redis://:S3cr3tX@[::1]:6379", "rediss://h", "redis+unix:///run/redis.sock",
  "redis+unix://:S3cr3tX@/run/r%20s", "valkey://h:1",
  "rediss+sentinel://a,b:1/c",
  "redis+sentinel://h1,h2:26379/name/0", "redis+sentinel://h1/m,h2/m",
  "zookeeper://h1:2181,h2,[fe80::1%25eth0]:1/app/x", "zk://u:S3cr3tX@h/%41",
  "zookeepers://h", "file:///var/lock/x", "file://localhost/x", "mysql://h",
  "mysqls://u:S3cr3tX@h/shop", "mysql+unix://:S3cr3tX@/run/x.sock/shop",
  "postgres://u:S3cr3tX@h1,[::1]:5433/shop", "postgress://h/%41",
  "postgres+unix://:S3cr3tX@/run/.s.PGSQL.5433/shop",
  "", "://", "redis://", "file:///%zz",
}
local WORDS = { "%00", "%2F", "%40", "%", ":", "@", "/", "//", "://", "?", "#",
  "..", ",", "[", "]", "[::1]", "65536", "0", "redis", "S3cr3tX", "\0", " ",
  "\n", ":S3cr3tX@", ("a"):rep(300), "\255" }

local counts = { urls = 0, opens = 0, strings = 0 }

local function fail(what, text, ...)
  print(("FAILED %s: %q"):format(what, text), ...)
  print(("to see it again: make fuzz FUZZ=urls SEED=%d"):format(seed))
  os.exit(1)
end

-- Every byte that could mean something is written as %XX.
local function encode(s)
  return (s:gsub("[^%w%-_.]", function(c)
    return ("%%%02X"):format(c:byte())
  end))
end

local function write(parts)
  local hosts = {}
  for i, one in ipairs(parts.hosts) do
    local name = one.host:find(":", 1, true)
      and "[" .. one.host:gsub("%%", "%%25") .. "]" or one.host
    hosts[i] = one.port > 0 and name .. ":" .. one.port or name
  end
  local user = ""
  if parts.username or parts.password then
    user = encode(parts.username or "") .. (parts.password
      and ":" .. encode(parts.password) or "") .. "@"
  end
  return parts.scheme .. "://" .. user .. table.concat(hosts, ",")
    .. parts.path:gsub("[^/]+", encode)
end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then
    return a == b
  end
  for name, value in pairs(a) do
    if not same(value, b[name]) then return false end
  end
  for name in pairs(b) do
    if a[name] == nil then return false end
  end
  return true
end

local function has_secret(text)
  return tostring(text):find(SECRET, 1, true)
end

-- The secret is none where it stands in for a host or a path, which a message
-- may repeat. Without parts it has to stand where a user or a password does.
local function is_public(text, parts)
  if parts then
    return has_secret(parts.path) or has_secret(parts.shown)
  end
  local before, after = text:match("^(.*)@(.*)$")
  if before then
    return not has_secret(before) or has_secret(after)
  end
  return not text:find("^[^/]*//[^/]*:" .. SECRET)
end

local function try_url(text)
  counts.urls = counts.urls + 1
  local ok, parts, message, code = pcall(url.parse, text)
  if not ok then
    fail("url.parse raises", text, parts)
  elseif not parts then
    if code ~= "invalid" then
      fail("a code of url.parse", text, code)
    elseif has_secret(message) and not is_public(text) then
      fail("a secret in a message", text, message)
    end
    return
  end
  local again, problem = url.parse(write(parts))
  if not again or not same(parts, again) then
    fail("what is written again", text, write(parts), problem)
  end
  return parts
end

local VALUES = { 0, 1, -1, 0.1, 1e9, 1 / 0, 0 / 0, true, false, "", "x",
  SECRET, "blocking", "luv", "auto", {}, print, ("y"):rep(600) }
local NAMES = { "url", "ttl", "timeout", "renew", "prefix", "name", "host",
  "scope", "username", "password", "password_file", "io_timeout",
  "connect_timeout", "session_timeout", "max_hold", "min_hold", "id",
  "schema", "tables", "listen", "on_event", "reentrant", "ttl_ms", 1,
  "fence_memory" }

local function random_options(mutant, text)
  local opts = { url = text, password = SECRET }
  for _ = 1, mutant:below(4) do
    opts[mutant:one_of(NAMES)] = mutant:one_of(VALUES)
  end
  return opts
end

local function try_open(mutant, text, parts)
  counts.opens = counts.opens + 1
  local opts = random_options(mutant, text)
  local public = is_public(text, parts)
  for name, value in pairs(opts) do
    if value == SECRET and name ~= "password" then
      public = true
    end
  end
  local ok, store, message = pcall(dlock.open, opts)
  if not public and (has_secret(store) or has_secret(message)) then
    fail("a secret in what open says", text, store, message)
  elseif not ok and type(store) ~= "string" then
    fail("an error that is no text", text, store)
  elseif ok and store then
    local closed, why, code = store:close(1)
    if not closed and not (opts.host and code == "unsupported") then
      fail("close", text, why)
    end
  end
end

-- ---- detached strings ----

-- A string may ask for a ttl of a millisecond: then no answer is in time.
local ALLOWED = { invalid = true, lost = true, unavailable = true }

local keys = 0

local function new_strings(store)
  keys = keys + 1
  local key = ("fuzz:%d:%d"):format(core.pid(), keys)
  local lease = assert(store:lock(key, { ttl = 3600 }))
  local other = assert(store:lock(key .. "b", { ttl = 3600, renew = false }))
  local third = assert(store:semaphore(key .. "c", 3):acquire { ttl = 3600 })
  local fourth = assert(store:lock(key .. "d", { ttl = 3600, max_hold = 600 }))
  return { assert(lease:detach()), assert(other:detach()),
    assert(third:detach()), assert(fourth:detach()),
    "r:2 1 1 0 0 1 50 k" .. ("t"):rep(50),
    "r,5:2 1 1 0 0 1 50 k" .. ("t"):rep(50) }
end

local STRING_WORDS = { "r", "0", ":", ",", " ", "1", "18446744073709551616",
  "-1", "9999999999999999", "512", "114", "\0", "%s", "4294967296" }

local function try_string(store, mutant)
  counts.strings = counts.strings + 1
  local text = mutant:text(3)
  local ok, lease, message, code = pcall(store.attach, store, text)
  if not ok then
    fail("attach raises", text, lease)
  elseif lease then
    assert(#lease.key > 0 and lease.ttl > 0)
    ok, message, code = lease:release()
    if not ok and code ~= "lost" then -- it may say that it is over
      fail("what was attached is not released", text, message)
    end
    mutant.texts = new_strings(store)
  elseif not ALLOWED[code] then
    fail("what attach says", text, message, code)
  end
end

local mutants = mutate.new(r, URLS, WORDS)
local redis = os.getenv("DLOCK_TEST_REDIS")
local store = redis and assert(dlock.open { url = redis, io_timeout = 10 })
local strings = store and mutate.new(r, new_strings(store), STRING_WORDS)

print(("fuzz urls for %g s, seed %d"):format(seconds, seed))
local ends, turn = core.now() + seconds, 0
while core.now() < ends do
  turn = turn + 1
  local text = mutants:text()
  local parts = try_url(text)
  if turn % 8 == 0 then
    try_open(mutants, text, parts)
  end
  if strings and turn % 4 == 0 then
    try_string(store, strings)
  end
end
print(("fuzz urls: good, %d urls, %d opens, %d detached strings"):format(
  counts.urls, counts.opens, counts.strings))
if store then
  store:close(1)
end
