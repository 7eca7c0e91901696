-- Every option of every call. A wrong type or an unknown option is a bug and
-- raises an error. A wrong value may come from outside and is the result
-- "invalid".
local canceller = require "dlock.canceller"
local misuse = require "dlock.misuse"
local text = require "dlock.text"

local options = {}

local YEAR = 31536000
local FAR = 1e9 -- seconds

--   own       the store gets this option of open. true: any store, which
--             refuses what has no use for it. "etcd consul": only those, so
--             that one table of times fits all stores; never for an option that
--             protects something, which others must refuse.
--   none      this value asks for nothing, and no store gets it
--   where     open, mutex (any lockable), nested (one that can be reentrant),
--             acquire, try (without a wait), wait (with one), release, once_per
--             and counted (arguments), permits (a semaphore), latch, list,
--             attach, fallback, tls
--   infinite  math.huge is allowed too; or_word: that string is;
--             or_false: false is
-- `.ci/types` makes types and tables of pages from comments and rules.
local TABLE = {
  --- Where the server is, as above.
  --- Default: `$DLOCK_URL`, else the file store of this user
  url = { where = "open", type = "string" },
  --- Goes before the user in the URL: see [Passwords](#passwords).
  username = { where = "open", type = "string", max_length = 512 },
  --- The password, or a function that gives it. It goes before that in the URL:
  --- see [Passwords](#passwords).
  ---@type string|(fun(): string?, any)
  password = { where = "open", type = "string", or_function = true,
    max_length = 4096 },
  --- A file with the password in its first line: see [Passwords](#passwords).
  password_file = { where = "open", type = "string", max_length = 4096 },
  --- `redis+sentinel`: the user for the Sentinels. They are never given the
  --- user and password of Redis.
  sentinel_username =
    { where = "open", own = true, type = "string", max_length = 512 },
  --- `redis+sentinel`: the password for the Sentinels.
  sentinel_password =
    { where = "open", own = true, type = "string", max_length = 4096 },
  --- `redis+sentinel`: a file with that password in its first line.
  sentinel_password_file =
    { where = "open", own = true, type = "string", max_length = 4096 },
  --- Redis: so many replicas, or `"all"`, must have a grant or a renewal before
  --- it counts; [only `"all"` keeps every lock](redis.md#wait_replicas). More
  --- than 0 is `invalid` on other stores.
  --- Default: 0
  wait_replicas = { where = "open", own = true, none = 0, type = "number",
    min = 0, max = 100, integer = true, or_word = "all" },
  --- Redis: how long the replicas may take, at most half of `io_timeout`. Other
  --- stores ignore it.
  wait_timeout = { where = "open", own = "redis", type = "number",
    min = 0.001, max = 60, default = 0.5 },
  --- `redis+sentinel`, `redis+cluster`: where a server is reached that the
  --- Sentinels or the nodes name by another address:
  --- `{ ["10.0.0.7:6379"] = "localhost:7001" }`.
  ---@type table<string, string>
  address_map = { where = "open", own = true, type = "table",
    addresses = true, like = '["10.0.0.7:6379"] = "localhost:7001"' },
  --- `redlock`: how long one node's vote, and so a round, is waited for. Other
  --- stores ignore it.
  node_timeout = { where = "open", own = "redlock", type = "number",
    min = 0.01, max = 1, default = 0.25 },
  --- `redlock`: no ttl may be longer, and a server that was started anew votes
  --- only after that time. All programs must have the same. It is `invalid` on
  --- other stores.
  --- Default: 60
  max_ttl = { where = "open", own = true, type = "number", min = 0.1,
    max = YEAR },
  --- `redlock`: a URL for each server, in place of the hosts in `url`, which is
  --- `redlock://` or missing then. They may have users and passwords, TLS or
  --- Unix sockets.
  ---@type string[]
  nodes = { where = "open", own = true, type = "table" },
  --- `redis+unix`: the number of the database. Other URLs have it in their
  --- path.
  --- Default: 0
  db = { where = "open", own = true, type = "number", min = 0, max = 99999,
    integer = true },
  --- Stands before each key on the server; on ZooKeeper, etcd and Consul it is
  --- a path, and cannot be empty.
  --- Default: `dlock:` on Redis, none on files and in SQL, else `/dlock`
  prefix = { where = "open", type = "string", max_length = 256 },
  --- ZooKeeper, etcd (from 1), Consul (10 to 60): how long the locks of a dead
  --- holder stay held. Other stores ignore it.
  session_timeout = { where = "open", own = "zookeeper etcd consul",
    type = "number", min = 0.1, max = 86400, default = 10 },
  --- ZooKeeper: with `"creator"` nodes belong to the user that makes them. It
  --- is `invalid` on other stores.
  --- Default: `"creator"` with a username, else `"open"`
  acl = { where = "open", own = true, type = "string",
    one_of = { "creator", "open" } },
  --- ZooKeeper: `true` is `unsupported`. It is `invalid` on other stores.
  --- Default: `false`
  sasl = { where = "open", own = true, type = "boolean" },
  --- PostgreSQL: the schema with dlock's tables. It is `invalid` on other
  --- stores.
  --- Default: `"dlock"`
  schema = { where = "open", own = true, type = "string", min_length = 1,
    max_length = 63 },
  --- MySQL: how the names of dlock's tables and procedures begin. It is
  --- `invalid` on other stores.
  --- Default: `"dlock_"`
  tables = { where = "open", own = true, type = "string", min_length = 1,
    max_length = 32 },
  --- PostgreSQL: a second URL, past a pooler that passes no LISTEN. With
  --- `false` waiters ask again and again ([how](postgres.md#pgbouncer)). It is
  --- `invalid` on other stores.
  --- Default: the URL
  ---@type string|false
  listen = { where = "open", own = true, type = "string", or_false = true,
    max_length = 4096 },
  --- How long an attempt to connect may take. A wait goes on with the next
  --- attempt until its `timeout` is over.
  connect_timeout =
    { where = "open", type = "number", min = 0.01, max = 3600, default = 3 },
  --- How long a release, extend, try or ping may take. Also: after a wait is
  --- over, how long dlock waits for the server to confirm that nothing is left
  --- of it.
  io_timeout =
    { where = "open", type = "number", min = 0.01, max = 3600, default = 2 },
  --- Redis: how long the fence counter of a key outlives its last use ([the
  --- fence counter](redis.md#the-fence-counter)). Other stores ignore it.
  fence_memory = { where = "open", own = "redis", type = "number", min = 1,
    max = YEAR, default = 600 },
  --- The name of this process in `inspect` and in messages.
  --- Default: host/pid
  name = { where = "open", type = "string", min_length = 1, max_length = 64 },
  --- How to wait. `"auto"` recognises nginx and cqueues.
  host = { where = "open", type = "string", default = "auto",
    one_of = { "auto", "blocking", "resty", "cqueues", "luv" },
    hint = " (how to wait; where the server is stands in url)" },
  --- OpenResty: waits and leases end with their request, or with the worker.
  scope = { where = "open", type = "string", default = "request",
    one_of = { "request", "worker" } },
  --- Names the store in the order of `dlock.all`. Set it if programs spell the
  --- URL differently.
  --- Default: the URL
  id = { where = "open", type = "string", min_length = 1, max_length = 4096 },
  --- Called with `{ kind =, message =, key = }`: see [Events](#events).
  ---@type fun(event: dlock.event)
  on_event = { where = "open", type = "function" },

  --- Only with a URL with TLS: see [TLS](#tls).
  ---@type dlock.tls_options
  tls = { where = "open", own = true, type = "table" },
  --- A file (PEM) with the CAs that are trusted.
  --- Default: those of the system
  cafile = { where = "tls", type = "string", max_length = 4096 },
  --- A directory of such certificates by hashes (`openssl rehash`), or several
  --- with `:` between them.
  --- Default: that of the system
  capath = { where = "tls", type = "string", max_length = 4096 },
  --- Our certificate (PEM), with the chain to its CA behind it.
  cert = { where = "tls", type = "string", max_length = 4096 },
  --- The key (PEM) of our certificate.
  --- Default: in the file `cert`
  key = { where = "tls", type = "string", max_length = 4096 },
  --- Opens an encrypted key.
  key_password = { where = "tls", type = "string", min_length = 1,
    max_length = 1024 },
  --- A file with that password in its first line.
  key_password_file = { where = "tls", type = "string", max_length = 4096 },
  --- The name that the server's certificate must have; it is also asked for
  --- (SNI).
  --- Default: the URL's host
  server_name = { where = "tls", type = "string", min_length = 1,
    max_length = 253 },
  --- `false` believes any server that answers, and says so by the event
  --- `insecure`, or on standard error.
  verify = { where = "tls", type = "boolean", default = true },
  --- The oldest version of TLS that is spoken.
  min_version = { where = "tls", type = "string", default = "1.2",
    one_of = { "1.2", "1.3" } },
  --- The ciphers of TLS 1.2, as OpenSSL writes them.
  --- Default: OpenSSL's
  ciphers = { where = "tls", type = "string", max_length = 4096 },
  --- The ciphers of TLS 1.3, as OpenSSL writes them.
  --- Default: OpenSSL's
  ciphersuites = { where = "tls", type = "string", max_length = 4096 },

  --- How long a hold lasts without renewal.
  ttl = { where = "open mutex acquire try latch", type = "number",
    min = 0.1, max = YEAR, default = 30,
    hint = "; to hold for longer, or for ever, leave renew = true" },
  --- The renewal thread extends the lease at a third of the ttl, while the
  --- lease object and the process live.
  renew = { where = "open mutex acquire try", type = "boolean",
    default = true },
  --- The lease ends then, renewed or not, so that a program that hangs frees
  --- the lock.
  max_hold = { where = "open mutex acquire try attach", type = "number",
    min = 0.01, max = FAR, infinite = true, default = math.huge },
  --- The key stays held for at least this time from the grant, even after a
  --- release: see [min_hold](#min_hold).
  min_hold = { where = "open mutex acquire try", type = "number", min = 0,
    max = YEAR, default = 0 },
  --- Gives the rest of `min_hold` up: the work failed, and another may try.
  --- Default: `false`
  early = { where = "release", type = "boolean" },
  --- How long one successful run of `store:once_per` counts.
  period = { where = "once_per", type = "number", min = 0.1, max = YEAR },
  --- How many meet at a barrier, or count down a latch.
  n = { where = "counted", type = "number", min = 1, max = 500,
    integer = true },
  --- How long to wait, also for a server that is not there (then the code is
  --- `unavailable`); 0 is a try. A campaign waits for ever, a release for the
  --- `io_timeout`, unless this is given.
  timeout = { where = "open wait", type = "number", min = 0,
    max = FAR, infinite = true, default = 5 },

  --- The owner may enter again: see [Reentrant locks](#reentrant-locks).
  reentrant = { where = "nested", type = "boolean", default = false },
  --- The owner, for reentrancy and in messages.
  --- Default: the coroutine
  owner = { where = "mutex", type = "string", min_length = 1,
    max_length = 95 },
  --- First come, first served. With `false`, in an event loop on Redis, a
  --- released lock may also go to a later waiter of the same event loop.
  fair = { where = "mutex", type = "boolean", default = true },
  --- With `fair = false`: hand-offs inside the process in a row, before other
  --- processes have their turn.
  local_handoffs = { where = "mutex", type = "number", min = 0, max = 1000,
    integer = true, default = 16 },

  --- Shown beside the holder, by `inspect` and `election:leader`.
  value = { where = "acquire try", type = "string", max_length = 1024,
    binary = true },
  --- Ends the wait by `canceller:cancel()`.
  ---@type dlock.canceller
  cancel = { where = "acquire try", canceller = true },
  --- How many permits of a semaphore to take.
  --- Default: 1
  permits = { where = "permits", type = "number", min = 1, max = 2147483647,
    integer = true },

  --- How long the store must have been unavailable before the next lock is
  --- given. Choose no less than the longest ttl of the lock's other users: if
  --- the store is down for everybody, they have passed their deadlines then.
  --- Default: the ttl of the request
  grace = { where = "fallback", type = "number", min = 0, max = YEAR },
  --- How long the store must answer before its lock is used again.
  hold_off = { where = "fallback", type = "number", min = 0, max = YEAR,
    default = 10 },
  --- Called with `{ key, message, unavailable, instead }` before the next lock
  --- is asked for. When it returns `false`, or raises an error (event
  --- `callback`), the answer is `unavailable`.
  ---@type fun(what: dlock.degraded): boolean?
  on_degraded = { where = "fallback", type = "function" },

  --- Where the last page ended. A cursor that no list gave is `invalid`.
  cursor = { where = "list", type = "string", max_length = 4096,
    binary = true },
  --- About how many keys to give.
  --- Default: 1000
  limit = { where = "list", type = "number", min = 1, max = 1000,
    integer = true },
}

-- The places of each call. A store's own lock, try_lock and with take options
-- of a lockable and of an acquire.
local CALLS = {
  ["dlock.open"] = "open",
  ["the table tls"] = "tls",
  ["store:mutex"] = "mutex nested wait",
  ["store:rwlock"] = "mutex nested wait",
  ["store:semaphore"] = "mutex wait",
  ["store:election"] = "mutex wait",
  ["store:lock"] = "mutex nested acquire wait",
  ["store:try_lock"] = "mutex nested try",
  ["store:with"] = "mutex nested acquire wait",
  ["store:latch"] = "latch",
  ["store:list"] = "list",
  ["store:attach"] = "attach",
  ["dlock.fallback"] = "fallback",
  ["store:once"] = "acquire wait",
  ["election:campaign"] = "acquire wait",
  ["lease:release"] = "release wait",
  ["lease:resign"] = "release wait",
}

for _, name in ipairs { "mutex", "reader", "writer", "semaphore", "election",
    "all", "fallback" } do
  local permits = name == "semaphore" and " permits" or ""
  CALLS[name .. ":acquire"] = "acquire wait" .. permits
  CALLS[name .. ":try_acquire"] = "try" .. permits
  CALLS[name .. ":with"] = "acquire wait" .. permits
end

local AT = {}
for name, rule in pairs(TABLE) do
  for place in rule.where:gmatch("%S+") do
    AT[place] = AT[place] or {}
    AT[place][name] = rule
  end
end

local RULES = {}
for call, places in pairs(CALLS) do
  local rules = {}
  for place in places:gmatch("%S+") do
    for name, rule in pairs(AT[place]) do rules[name] = rule end
  end
  RULES[call] = rules
end

-- Other libraries' names for parts of `url`.
local IN_URL = { port = true, hosts = true, uri = true, server = true,
  servers = true, address = true, path = true }

local function raise_unknown(name, call)
  local known = {}
  for other in pairs(RULES[call]) do known[#known + 1] = other end
  table.sort(known)
  local shown = type(name) == "string" and text.quote(name)
    or "[" .. text.of_error(name) .. "]"
  local why = type(name) == "string" and TABLE[name]
    and "option %s does not belong to %s (it takes %s)"
    or "unknown option %s for %s (it takes %s)"
  local hint = RULES[call].url and IN_URL[name]
    and "; where the server is stands in url" or ""
  misuse.raise(why .. hint, shown, call, table.concat(known, ", "))
end

local function limits(rule)
  return ("from %s to %s"):format(text.number(rule.min), text.number(rule.max))
end

local function range(rule)
  return ("%s %s%s"):format(rule.integer and "an integer"
    or "a number of seconds", limits(rule), rule.infinite and ", or math.huge"
    or rule.or_word and (', or "%s"'):format(rule.or_word) or "")
end

local function bad_number(value, rule)
  if type(value) == "string" then
    return value ~= rule.or_word and ("is %s, but must be %s"):format(
      text.quote(value), range(rule)) or nil
  elseif value >= rule.min and value <= rule.max -- false for NaN
      and not (rule.integer and value % 1 ~= 0)
      or rule.infinite and value == math.huge then
    return nil
  end
  return ("is %s, but must be %s%s"):format(text.number(value), range(rule),
    rule.hint or "")
end

-- Never shows the value: it may be a secret.
local function bad_string(value, rule)
  local min, max = rule.min_length or 0, rule.max_length or math.huge
  if #value < min or #value > max then
    return ("has %d bytes, but must have %d to %d"):format(#value, min, max)
  elseif not rule.binary and text.has_controls(value) then
    return "holds control bytes"
  elseif not rule.one_of then
    return nil
  end
  for _, allowed in ipairs(rule.one_of) do
    if value == allowed then return nil end
  end
  return ("is %s, but must be one of %s%s"):format(text.quote(value),
    table.concat(rule.one_of, ", "), rule.hint or "")
end

local ADDRESS = "^[^ " .. text.CONTROL .. "]+:(%d+)$"

local function is_address(value)
  local port = type(value) == "string" and tonumber(value:match(ADDRESS))
  return port and port >= 1 and port <= 65535
end

local function bad_addresses(value, rule)
  for name, one in next, value do
    if not (is_address(name) and is_address(one)) then
      return "has an entry that is not of the form " .. rule.like
    end
  end
end

-- The right type of an option, or nil and what is wrong with its value.
local function wrong(value, rule)
  if rule.canceller then
    return not canceller.state(value) and "canceller"
  elseif type(value) ~= rule.type then
    if rule.or_word and type(value) == "string" then
      return nil, bad_number(value, rule)
    end
    return not (rule.or_function and type(value) == "function"
      or rule.or_false and value == false) and rule.type
  elseif rule.type == "number" then
    return nil, bad_number(value, rule)
  elseif rule.type == "string" then
    return nil, bad_string(value, rule)
  elseif rule.addresses then
    return nil, bad_addresses(value, rule)
  end
end

-- Looks at the options behind `name`. Gives a problem; then an option that is
-- unknown, or of the wrong type, and its right type. LuaJIT compiles no call
-- into a loop that ends so soon, so it recurses.
local function look(opts, rules, name)
  local value
  name, value = next(opts, name)
  if name == nil then
    return nil
  end
  local rule = rules[name]
  if not rule then
    return nil, name
  end
  local expected, bad = wrong(value, rule)
  if expected then
    return nil, name, expected
  end
  local problem, other, other_expected = look(opts, rules, name)
  if bad and not problem then
    problem = ("%s %s"):format(name, bad)
  end
  return problem, other, other_expected
end

--- Checks a table of options, or nil. Raises for a mistake of the program.
---@return string? problem
function options.check(opts, call)
  if opts == nil then
    return nil
  elseif type(opts) ~= "table" then
    misuse.raise("the options of %s must be a table, not a %s", call,
      type(opts))
  end
  local problem, name, expected = look(opts, RULES[call])
  if expected then
    misuse.raise("option '%s' of %s must be a %s, not a %s", name, call,
      expected, type(opts[name]))
  elseif name ~= nil then
    raise_unknown(name, call)
  end
  return problem
end

--- Raises if a table stands behind the last argument: nobody would read it as
--- options. Other values may be another function's second result.
function options.check_end(extra, call, takes)
  if type(extra) == "table" then
    misuse.raise("%s takes %s, and no table behind it", call, takes)
  end
end

--- Checks an argument by the rule of the option `name`.
function options.check_number(value, name, call)
  if type(value) ~= "number" then
    misuse.raise("the %s of %s must be a number%s, not a %s", name, call,
      TABLE[name].integer and "" or " of seconds", type(value))
  end
  local bad = bad_number(value, TABLE[name])
  return bad and ("%s %s"):format(name, bad)
end

function options.check_optional(value, name, call)
  return value ~= nil and options.check_number(value, name, call) or nil
end

---@return string? problem
---@return number? timeout
---@return boolean? early
function options.check_release(given, call)
  if given == nil then
    return nil
  elseif type(given) ~= "table" then
    return options.check_number(given, "timeout", call), given
  end
  return options.check(given, call), rawget(given, "timeout"),
    rawget(given, "early")
end

function options.check_key(key, call)
  if type(key) ~= "string" then
    misuse.raise("the key given to %s must be a string, not a %s", call,
      type(key))
  elseif #key == 0 or #key > 512 then
    return ("the key %s has %d bytes, but must have 1 to 512")
      :format(text.quote(key), #key)
  end
end

--- The options of an acquire: opts, else base, else the defaults.
function options.defaults(opts, base)
  local out = {}
  for name, rule in pairs(TABLE) do
    if rule.default ~= nil and RULES["store:mutex"][name] then
      local value = opts and rawget(opts, name)
      if value == nil and base then value = base[name] end
      if value == nil then value = rule.default end
      out[name] = value
    end
  end
  return out
end

function options.own(opts, module)
  local out, kin = {}, module == "redlock" and "redis" or module -- its nodes
  for name, rule in pairs(TABLE) do
    local owners = " " .. tostring(rule.own) .. " "
    if rule.own == true or owners:find(" " .. module .. " ", 1, true)
        or owners:find(" " .. kin .. " ", 1, true) then
      local value = rawget(opts, name)
      if value == nil then
        value = rule.default
      elseif value == rule.none then
        value = nil
      end
      out[name] = value
    end
  end
  return out
end

function options.fits(value, name)
  return not bad_number(value, TABLE[name])
end

--- "from 0 to 1000"
function options.limits(name)
  return limits(TABLE[name])
end

--- "an integer from 0 to 1000"
function options.range(name)
  return range(TABLE[name])
end

function options.rule(name)
  return TABLE[name]
end

function options.places(call)
  return CALLS[call]
end

function options.default(name)
  return TABLE[name].default
end

return options
