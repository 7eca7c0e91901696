-- The store object wraps the client, which leases and lockables share and keep
-- alive:
--   engine, host (an adapter, or false: detect), base (option defaults), shown,
--   mutex (`from` of locks without an object), holds (reentrancy), watched
--   (callbacks), on_event, id and prefix (the order of dlock.all)
local barrier = require "dlock.kinds.barrier"
local class = require "dlock.class"
local core = require "dlock.core"
local election = require "dlock.kinds.election"
local events = require "dlock.events"
local host = require "dlock.host"
local latch = require "dlock.kinds.latch"
local lockable = require "dlock.lockable"
local misuse = require "dlock.misuse"
local once = require "dlock.kinds.once"
local once_per = require "dlock.kinds.once_per"
local options = require "dlock.options"
local password = require "dlock.password"
local reentrant = require "dlock.reentrant"
local results = require "dlock.results"
local rwlock = require "dlock.kinds.rwlock"
local secure = require "dlock.secure"
local semaphore = require "dlock.kinds.semaphore"
local shared = require "dlock.shared"
local stats = require "dlock.stats"
local text = require "dlock.text"

local store, fail = {}, results.fail

--- A holder of a key.
---@class dlock.holder
---@field owner string
---@field fence? integer
---@field fence_at_most? true the fence is this or a smaller one
---@field ttl? number seconds
---@field since? number for how many seconds
---@field permits? integer of a semaphore
---@field value? string

---@class dlock.waiter
---@field owner string
---@field mode "exclusive"|"shared"|"semaphore"
---@field waited number for how many seconds
---@field permits? integer of a semaphore

---@class dlock.inspected
---@field key string
---@field mode? "exclusive"|"shared"|"semaphore"
---@field permits? integer how many a semaphore has
---@field holders dlock.holder[]
---@field waiters dlock.waiter[] in the order of the queue

--- What dlock.open gives.
---@class dlock.store
local methods = {}

local CLASS = class("store", methods, "; options go into dlock.open")
local client_of = CLASS.state_of

store.client = CLASS.state

local function ask(client, name, argument)
  return host.ask(client, client.engine[name], client.engine, argument)
end

local function check(key, opts, call)
  return options.check_key(key, call) or options.check(opts, call)
end

--- Connects if need be, and asks the server for a sign of life. Returns the
--- round trip in seconds.
---@param timeout? number seconds (io_timeout, plus connect_timeout)
---@return number|nil round_trip seconds
---@return string? message
---@return dlock.code? code unavailable, denied, closed, forked
function methods:ping(timeout, extra)
  local client = client_of(self, "ping")
  options.check_end(extra, "store:ping", "a timeout")
  local bad = options.check_optional(timeout, "timeout", "store:ping")
  if bad then return fail("invalid", bad) end
  return ask(client, "ping", timeout)
end

--- Cancels waits, releases leases, ends threads. Returns `true`. See
--- [closing](#closing).
---@param timeout? number seconds at most
---@return true|nil
---@return string? message
---@return dlock.code? code unavailable, forked
function methods:close(timeout, extra)
  local client = client_of(self, "close")
  options.check_end(extra, "store:close", "a timeout")
  local bad = options.check_optional(timeout, "timeout", "store:close")
  if bad then return fail("invalid", bad) end
  local done, message, code = ask(client, "close", timeout)
  host.closed(client)
  return results.of(done, message, code)
end

-- The default promises nothing there.
local function no_queue(client, opts)
  return opts and rawget(opts, "fair") and client.module == "redlock"
    and client.shown .. ": on a Redlock nobody queues up, so nothing is fair;"
    .. " leave the option out, or use redis:// or zookeeper://" or nil
end

local function on_key(name, do_it)
  local call = "store:" .. name
  local takes_options = options.places(call)
  return function(self, key, opts, extra)
    local client = client_of(self, name)
    if takes_options then
      options.check_end(extra, call, "a key and options")
    else
      options.check_end(opts, call, "a key")
      opts = nil
    end
    local bad = check(key, opts, call)
    if bad then return fail("invalid", bad) end
    bad = no_queue(client, opts)
    if bad then return fail("unsupported", bad) end
    return do_it(client, key, opts)
  end
end

--- Makes a mutex on `key`, which has 1 to 512 bytes.
---@param key string 1 to 512 bytes
---@param opts? dlock.mutex_options
---@return dlock.mutex|nil
---@return string? message
---@return dlock.code? code invalid
methods.mutex = on_key("mutex", lockable.mutex)

--- Makes a read-write lock on `key`.
---@param key string
---@param opts? dlock.mutex_options
---@return dlock.rwlock|nil
---@return string? message
---@return dlock.code? code invalid
methods.rwlock = on_key("rwlock", rwlock.new)

--- Makes a semaphore on `key`: so many permits (1 to 2147483647) can be held
--- together.
---@param key string
---@param permits integer from 1 to 2147483647
---@param opts? dlock.lockable_options
---@return dlock.semaphore|nil
---@return string? message
---@return dlock.code? code invalid
function methods:semaphore(key, permits, opts, extra)
  local client = client_of(self, "semaphore")
  options.check_end(extra, "store:semaphore", "a key, permits and options")
  local bad = check(key, opts, "store:semaphore")
    or options.check_number(permits, "permits", "store:semaphore")
  if bad then return fail("invalid", bad) end
  return semaphore.new(client, key, permits, opts)
end

-- How many meet at a key, which has room for the second key's end.
local function check_meeting(client, key, n, call)
  local bad = options.check_key(key, call)
    or options.check_number(n, "n", call)
    or #key > 500 and ("the key %s has %d bytes, but must have 1 to 500 for %s")
      :format(text.quote(key), #key, call)
  if bad then return fail("invalid", bad) end
  local missing = semaphore.missing(client)
  if missing then return fail("unsupported", missing) end
  return true
end

--- Makes one member of a barrier on `key`, where `n` (1 to 500) programs wait
--- for each other. See [barriers](#barriers).
---@param key string 1 to 500 bytes
---@param n integer from 1 to 500
---@return dlock.barrier|nil
---@return string? message
---@return dlock.code? code invalid, unsupported
function methods:barrier(key, n, extra)
  local client = client_of(self, "barrier")
  options.check_end(extra, "store:barrier", "a key and a number")
  local ok, message, code = check_meeting(client, key, n, "store:barrier")
  if not ok then return nil, message, code end
  return barrier.new(client, key, n)
end

--- Makes a latch on `key`, which opens when `n` (1 to 500) counts were made.
--- See [latches](#latches).
---@param key string 1 to 500 bytes
---@param n integer from 1 to 500
---@param opts? dlock.latch_options
---@return dlock.latch|nil
---@return string? message
---@return dlock.code? code invalid, unsupported
function methods:latch(key, n, opts, extra)
  local client = client_of(self, "latch")
  options.check_end(extra, "store:latch", "a key, a number and options")
  local bad = options.check(opts, "store:latch")
  if bad then return fail("invalid", bad) end
  local ok, message, code = check_meeting(client, key, n, "store:latch")
  if not ok then return nil, message, code end
  return latch.new(client, key, n, opts)
end

--- Makes an election on `key`.
---@param key string
---@param opts? dlock.lockable_options
---@return dlock.election|nil
---@return string? message
---@return dlock.code? code invalid
methods.election = on_key("election", election.new)

--- Returns the holders and waiters of `key`, `nil` and no message when there
--- are none. See [inspect and list](#inspect-and-list).
---@param key string
---@return dlock.inspected|nil
---@return string? message
---@return dlock.code? code
methods.inspect = on_key("inspect", function(client, key)
  local found, message, code = lockable.inspect { client = client, key = key }
  for _, holder in ipairs(found and found.holders or {}) do
    if holder.own_fence then -- ours, which the server knows less of
      holder.fence, holder.since = holder.own_fence, holder.own_since
      holder.fence_at_most = nil
    end
    holder.hold, holder.own_fence, holder.own_since = nil, nil, nil
  end
  return results.of(found, message, code)
end)

--- Returns an array of keys in use, in no order, and a cursor for the next call
--- (`{ cursor = }`), `nil` at the end. `limit` is their rough number, 1 to 1000
--- (1000). See [inspect and list](#inspect-and-list).
---@param prefix? string
---@param opts? dlock.list_options
---@return string[]|nil keys
---@return string? cursor nil at the end; else the message
---@return dlock.code? code
function methods:list(prefix, opts, extra)
  local client = client_of(self, "list")
  options.check_end(extra, "store:list", "a prefix and options")
  if prefix ~= nil and type(prefix) ~= "string" then
    misuse.raise("the prefix given to store:list must be a string, not a %s",
      type(prefix))
  end
  local bad = options.check(opts, "store:list")
    or prefix and #prefix > 512 and "the prefix has more than 512"
      .. " bytes, so no key begins with it"
  if bad then return fail("invalid", bad) end
  return results.of(host.ask(client, client.engine.list, client.engine,
    prefix or "", opts and rawget(opts, "cursor"),
    opts and rawget(opts, "limit")))
end

-- A method that is also true when nobody held the key.
local function ordering(name)
  return on_key(name, function(client, key)
    local done, message, code = ask(client, name, key)
    if done == nil then return nil, message, code end
    return true
  end)
end

--- For admins: ends every hold of `key`, if there is one, and returns `true`.
--- Holders see `lost` at their next renewal at the latest. Until then two may
--- believe that they hold. Fences keep rising.
---@param key string
---@return true|nil
---@return string? message
---@return dlock.code? code
methods.break_lock = ordering "break_lock"

--- Asks the holders of `key` to release it (`lease:on_revoke`,
--- `lease:revoked`). Returns `true`.
---@param key string
---@return true|nil
---@return string? message
---@return dlock.code? code
methods.revoke = ordering "revoke"

--- Redis: returns a string such as `"{123456}"`. A name that contains it is in
--- the slot of the lock on `key`. On other stores it is `unsupported`. No I/O.
---@param key string
---@return string|nil tag "{123456}"
---@return string? message
---@return dlock.code? code unsupported on other stores than Redis; closed
methods.tag = on_key("tag", function(client, key)
  local tag, message, code = client.engine:tag(key)
  if tag or message then
    return results.of(tag, message, code)
  end
  return fail("unsupported", client.shown .. ": only the names of Redis have"
    .. " slots; here no name needs a tag")
end)

local function acquire(client, key, opts, wait_for_it)
  return lockable.acquire(client.mutex, opts, wait_for_it, nil,
    opts and rawget(opts, "reentrant"), key, opts and rawget(opts, "owner"))
end

--- Returns a lease: short for `mutex(key, options):acquire(options)`.
---@param key string
---@param opts? dlock.lock_options
---@nodiscard
---@return dlock.lease|nil
---@return string? message
---@return dlock.code? code
methods.lock = on_key("lock", function(client, key, opts)
  return acquire(client, key, opts, true)
end)

--- Returns a lease: short for `mutex(key, options):try_acquire(options)`.
---@param key string
---@param opts? dlock.try_lock_options
---@nodiscard
---@return dlock.lease|nil
---@return string? message
---@return dlock.code? code
methods.try_lock = on_key("try_lock", function(client, key, opts)
  return acquire(client, key, opts, false)
end)

local function run_with(client, key, opts, fn, ...)
  local lease, message, code = acquire(client, key, opts, true)
  return lockable.run(lease, message, code, fn, ...)
end

--- Short for `mutex(key, options):with(options, fn, …)`.
---@param key string
---@param opts? dlock.lock_options
---@param fn fun(lease: dlock.lease, ...): ...
---@param ... any for fn, behind the lease
---@return true|nil
---@return any ... # fn's results; or the message and the code
---@overload fun(self, key: string,
--- fn: (fun(lease: dlock.lease, ...): ...), ...): true|nil, any
function methods:with(key, opts, ...)
  local client = client_of(self, "with")
  if lockable.callable(opts) then
    local bad = check(key, nil, "store:with")
    if bad then return fail("invalid", bad) end
    return run_with(client, key, nil, opts, ...)
  end
  lockable.check_function((...), "store:with")
  local bad = check(key, opts, "store:with")
  if bad then return fail("invalid", bad) end
  bad = no_queue(client, opts)
  if bad then return fail("unsupported", bad) end
  return run_with(client, key, opts, ...)
end

--- Returns the counters and histograms of this process, or with `"prometheus"`
--- text for a /metrics page; another format is `invalid`. See [stats](#stats).
--- No I/O.
---@param format? "prometheus"
---@return dlock.stats|string|nil
---@return string? message
---@return dlock.code? code invalid, closed
function methods:stats(format, extra)
  local client = client_of(self, "stats")
  options.check_end(extra, "store:stats", '"prometheus" or nothing')
  if format ~= nil and type(format) ~= "string" then
    misuse.raise('store:stats takes "prometheus" or nothing, not a %s',
      type(format))
  elseif format and format ~= "prometheus" then
    return fail("invalid", 'store:stats gives a table, or "prometheus", not '
      .. text.quote(format))
  end
  local found, message, code = client.engine:stats()
  if not found then return nil, message, code end
  found.degraded = client.degraded or 0
  once.count(client, found.acquires)
  if format then
    return stats.page { stats.part({ { found = found, id = client.id,
      prefix = client.prefix } }, ('pid="%d"'):format(core.pid())) }
  end
  return found
end

--- Single flight: one caller runs `fn(lease)` under the lock, and the others
--- get the string that it returned. See [once](#once).
---@param key string
---@param fn fun(lease: dlock.lease): string|nil, string?, string?
---@param opts? dlock.acquire_options
---@return string|nil
---@return string? message
---@return dlock.code? code
function methods:once(key, fn, opts, extra)
  return once.run(client_of(self, "once"), key, fn, opts, extra)
end

--- Periodic work: at most one run of `fn(lease)` that succeeds in each period
--- (0.1 to 31536000 seconds), in all processes. Results as of `with`; `busy`
--- when it was done or is being done. See [once a period](#once-a-period).
---@param key string
---@param seconds number the period, 0.1 to 31536000, counted by the server
--- from the grant
---@param fn fun(lease: dlock.lease): ...
---@return true|nil
---@return any ... # fn's results; or the message and the code
function methods:once_per(key, seconds, fn, extra)
  return once_per.run(client_of(self, "once_per"), key, seconds, fn, extra)
end

--- Makes a lease again from the string of `lease:detach()` (Redis, etcd,
--- PostgreSQL, MySQL). See [detach and attach](#detach-and-attach).
---@param detached string
---@param opts? dlock.attach_options
---@nodiscard
---@return dlock.lease|nil
---@return string? message
---@return dlock.code? code lost, invalid, unsupported, unavailable
function methods:attach(detached, opts, extra)
  local client = client_of(self, "attach")
  options.check_end(extra, "store:attach", "a string and options")
  if type(detached) ~= "string" then
    misuse.raise("store:attach takes the string that lease:detach() gave, not"
      .. " a %s", type(detached))
  end
  local bad = options.check(opts, "store:attach")
  if bad then return fail("invalid", bad) end
  return host.ask(client, client.engine.attach, client.engine,
    text.of_word(detached),
    opts and opts.max_hold or client.base.max_hold)
end

CLASS.meta.__close = function(self) -- an error follows self
  methods.close(self)
end

local ROCKS = { zookeeper = true, etcd = true, consul = true, postgres = true,
  mysql = true }
-- What stands before the names of a store's tables, for its SQL.
local SCHEMAS = {}

function SCHEMAS.postgres(sql, opts)
  return (sql:gsub("dlock([.;])", function(mark)
    return text.identifier(opts.schema or "dlock") .. mark
  end))
end

function SCHEMAS.mysql(sql, opts)
  return (sql:gsub("dlock_", function() return opts.tables end))
end

-- The table of the store's library. Lua takes a file that cannot be opened for
-- a missing one, so descriptors are tried.
local function find_type(module, scheme)
  local ok, found = pcall(require, "dlock.store." .. module)
  if ok then
    return found
  end
  local any, problem = io.open("/dev/null")
  if not any then
    return fail("unavailable", ("the store for %s:// cannot be loaded: %s")
      :format(scheme, problem))
  end
  any:close()
  local why = tostring(found)
  if why:find("not found", 1, true) then
    why = ROCKS[module]
      and "install the rock dlock-" .. module
      or ("build dlock with %s in STORES"):format(module)
  end
  return fail("unsupported", ("the store for %s:// cannot be loaded: %s")
    :format(scheme, why))
end

--- The SQL that makes a store's tables. opts: schema, tables.
---@return string|nil
---@return string? message
---@return dlock.code? code invalid, unsupported, unavailable
function store.schema(module, opts)
  local named = SCHEMAS[module]
  if not named then
    return fail("invalid", ("no store %s has a schema; there are postgres,"
      .. " mysql"):format(text.quote(module)))
  end
  if opts.schema and not opts.schema:find("^[a-z_][a-z0-9_]*$") then
    return fail("invalid", "a schema's name has small letters, digits and _")
  end
  local kind, message, code = find_type(module, module)
  if not kind then return nil, message, code end
  return named(core.schema(kind), opts)
end

local function own_options(where, opts)
  local own = options.own(opts, where.module)
  own.nodes, own.database = where.nodes, where.database
  own.tls_library = where.tls and secure.library() or nil
  return own
end

-- A Unix socket's folder stands in the URL's path.
local function reached(where)
  return where.reach or where.hosts
end

local function finish(client)
  client.mutex = { client = client, kind = lockable.MUTEX, base = client.base }
  client.engine:set_client(client) -- for leases
end

-- Names of tables make another store of the same database.
local function id_of(shown, opts)
  local name = opts.schema or opts.tables
  return opts.id or shown .. (name and " " .. name or "")
end

-- A client on another's, which has and notes everything else.
local function share(key, opts)
  local engine, hub = shared.find(key)
  if not engine then
    return nil
  end
  local client = {
    engine = engine,
    base = options.defaults(opts),
    holds = reentrant.new(),
    id = id_of(hub.shown, opts),
    mutex = false, -- see finish
  }
  finish(setmetatable(client, { __index = hub, __newindex = hub }))
  return client
end

--- No I/O.
---@param where table from url.parse
function store.open(where, opts)
  local kind, message, code = find_type(where.module, where.scheme)
  if not kind then return nil, message, code end
  local adapter
  adapter, message, code = host.find(opts.host or options.default("host"))
  if adapter == nil then return nil, message, code end
  local key = shared.key(where, opts)
  local client = share(key, opts)
  if client then
    return CLASS.new(client)
  end
  shared.make_room()
  local io_timeout = opts.io_timeout or options.default("io_timeout")
  local own = own_options(where, opts)
  local engine
  engine, message, code = core.engine(kind, {
    shown = where.shown,
    scheme = where.scheme,
    hosts = reached(where),
    path = where.path,
    username = opts.username or where.username,
    password = opts.password or where.password,
    password_file = opts.password_file,
    asks = opts.ask ~= nil,
    prefix = opts.prefix,
    name = opts.name,
    connect_timeout =
      opts.connect_timeout or options.default("connect_timeout"),
    io_timeout = io_timeout,
    options = own,
    -- Nobody listens to the store's own events.
    quiet = opts.on_event == nil and opts.ask == nil,
  })
  if not engine then return nil, message, code end
  client = {
    engine = engine,
    host = adapter,
    shown = where.shown,
    module = where.module,
    schema = opts.schema,
    tables = opts.tables,
    database = where.database,
    io_timeout = io_timeout,
    base = options.defaults(opts),
    holds = reentrant.new(),
    watched = events.new(),
    on_event = opts.on_event,
    scope = opts.scope or options.default("scope"),
    pool = key, -- that of others with the same URL and options
    id = id_of(where.shown, opts),
    prefix = engine:prefix(),
  }
  client.hub = client
  password.watch(client, opts.ask)
  finish(client)
  events.watch(client)
  shared.add(key, client)
  local insecure = secure.warning(opts.tls, where.shown)
  if insecure then events.insecure(client, insecure) end
  return CLASS.new(client)
end

return store
