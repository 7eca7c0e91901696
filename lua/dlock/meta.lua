---@meta dlock
-- luacheck: ignore 212 241
-- Types for editors with the Lua language server; no code, and nothing loads
-- this file. Calls return nil, message, code when they fail.

---@alias dlock.code
---| "busy"        # a try: somebody else holds it now
---| "timeout"     # waited, did not get it, left nothing behind
---| "cancelled"   # the wait was cancelled, or its store closed
---| "lost"        # the lease is not ours any more
---| "unavailable" # the store cannot be reached or cannot serve
---| "denied"      # authentication, an ACL or permissions refused us
---| "invalid"     # a URL, key or value that cannot be used
---| "closed"      # the store was closed
---| "forked"      # made and used before a fork, used after it
---| "unsupported" # this store or host cannot do that

---@class dlock
---@field VERSION string
local dlock = {}

---@param where? string|dlock.open_options $DLOCK_URL, else this user's files
---@nodiscard
---@return dlock.store|nil store
---@return string? message
---@return dlock.code? code
function dlock.open(where) end

---@return dlock.canceller
function dlock.canceller() end

---@param list dlock.lockable[] of any stores, no lock twice
---@return dlock.lockable # its lease is a dlock.leases
function dlock.all(list) end

---@class dlock.fallback_list: dlock.lockable[]
---@field grace? number seconds unavailable before the next lock (the ttl)
---@field hold_off? number seconds of answers before it is used again (10)
---@field on_degraded? fun(what: dlock.degraded): boolean? false refuses
---@field skip? boolean busy, if none of them can be reached (false)

---@class dlock.degraded
---@field key string
---@field message string
---@field unavailable string the store that does not answer
---@field instead string the store that is asked next

---@param list dlock.fallback_list
---@return dlock.lockable|nil
---@return string? message
---@return dlock.code? code
function dlock.fallback(list) end

---@class dlock.prometheus_list: dlock.store[]
---@field shared? string a lua_shared_dict: all workers of nginx on one page

---@param list dlock.prometheus_list
---@return string|nil page
---@return string? message
---@return dlock.code? code
function dlock.prometheus(list) end

---@param ... "TERM"|"INT"|"HUP"|"QUIT"|"USR1"|"USR2"|"ALRM"
---@return true|nil
---@return string? message
---@return dlock.code? code unsupported, unavailable
function dlock.release_on(...) end

---@param file? file* (nginx's error log, elsewhere standard error)
---@return fun(event: dlock.event) on_event
function dlock.logger(file) end

---@class dlock.hold_options
---@field ttl? number seconds, 0.1 to 31536000 (30)
---@field renew? boolean keep it while the lease object lives (true)
---@field max_hold? number seconds after which it ends, renewed or not
---@field min_hold? number seconds the key stays held even if released (0)

---@class dlock.release_options
---@field early? boolean the min_hold is given up (false)
---@field timeout? number seconds to wait for the store (io_timeout)

---@class dlock.try_options: dlock.hold_options
---@field value? string to be shown beside the holder
---@field cancel? dlock.canceller

---@class dlock.acquire_options: dlock.try_options
---@field timeout? number seconds to wait (5); 0 tries once

---@class dlock.permit_options: dlock.acquire_options
---@field permits? integer how many of a semaphore (1)

---@class dlock.lockable_options: dlock.hold_options
---@field timeout? number seconds to wait (5; a campaign: for ever)
---@field owner? string who enters (the current coroutine)
---@field fair? boolean first come, first served (true)
---@field local_handoffs? integer local hand-offs in a row at most (16)

---@class dlock.mutex_options: dlock.lockable_options
---@field reentrant? boolean the owner may enter again (false)

---@class dlock.list_options
---@field cursor? string where the last page ended
---@field limit? integer about how many keys (1000)

---@class dlock.lock_options: dlock.mutex_options, dlock.acquire_options

---@class dlock.open_options: dlock.hold_options
---@field url? string
---@field timeout? number seconds to wait (5)
---@field username? string
---@field password? string|fun(): string?, any asked for again when denied
---@field password_file? string its first line, read again at each connect
---@field sentinel_username? string for the Sentinels
---@field sentinel_password? string
---@field sentinel_password_file? string its first line is the password
---@field wait_replicas? integer|"all" that must have a grant, Redis (0)
---@field wait_timeout? number seconds they may take (0.5)
---@field address_map? table<string, string> where a named server really is
---@field db? integer the database, of redis+unix:// (0)
---@field prefix? string before each key on the server
---@field name? string who we are, for others to see (host/pid)
---@field id? string names the store among others (the URL)
---@field connect_timeout? number seconds (3)
---@field io_timeout? number seconds (2)
---@field fence_memory? number seconds a key's counter stays, Redis (600)
---@field session_timeout? number seconds, ZooKeeper (10)
---@field acl? "creator"|"open" of ZooKeeper's nodes ("creator" with a user)
---@field sasl? boolean unsupported: ZooKeeper's client library has none
---@field host? "auto"|"blocking"|"resty"|"cqueues"|"luv"
---@field scope? "request"|"worker"
---@field on_event? fun(event: dlock.event)
---@field tls? dlock.tls_options with a URL with TLS

---@class dlock.tls_options
---@field cafile? string PEM: the CAs that are trusted (the system's)
---@field capath? string a directory of such, by hashes
---@field cert? string PEM: our certificate, and what leads to its CA
---@field key? string PEM: its key (in cert's file)
---@field key_password? string opens the key
---@field key_password_file? string its first line opens the key
---@field server_name? string whom the certificate names (the URL's host)
---@field verify? boolean that the server is the right one (true)
---@field min_version? "1.2"|"1.3"
---@field ciphers? string of TLS 1.2, as OpenSSL writes them
---@field ciphersuites? string of TLS 1.3

---@class dlock.event
---@field kind string
---@field message string
---@field key? string

---@class dlock.store
local store = {}

---@param timeout? number
---@return number|nil seconds
---@return string? message
---@return dlock.code? code
function store:ping(timeout) end

---@param timeout? number
---@return true|nil ok
---@return string? message
---@return dlock.code? code
function store:close(timeout) end

---@param key string
---@param opts? dlock.mutex_options
---@return dlock.mutex|nil mutex
---@return string? message
---@return dlock.code? code
function store:mutex(key, opts) end

---@param key string
---@param opts? dlock.mutex_options
---@return dlock.rwlock|nil rwlock
---@return string? message
---@return dlock.code? code
function store:rwlock(key, opts) end

---@param key string
---@param permits integer 1 to 2147483647
---@param opts? dlock.lockable_options
---@return dlock.semaphore|nil semaphore
---@return string? message
---@return dlock.code? code
function store:semaphore(key, permits, opts) end

---@param key string
---@param opts? dlock.lockable_options
---@return dlock.election|nil election
---@return string? message
---@return dlock.code? code
function store:election(key, opts) end

---@class dlock.holder
---@field owner string
---@field fence? integer
---@field fence_at_most? true its fence is this or a smaller one
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

---@param key string
---@return dlock.inspected|nil found nil and no message: nobody
---@return string? message
---@return dlock.code? code
function store:inspect(key) end

---@param prefix? string
---@param opts? dlock.list_options
---@return string[]|nil keys
---@return string? cursor nil at the end; or the message
---@return dlock.code? code
function store:list(prefix, opts) end

---@param key string
---@return true|nil ok
---@return string? message
---@return dlock.code? code
function store:break_lock(key) end

---@param key string
---@return true|nil ok
---@return string? message
---@return dlock.code? code
function store:revoke(key) end

---@param key string
---@param opts? dlock.lock_options
---@nodiscard
---@return dlock.lease|nil lease
---@return string? message
---@return dlock.code? code
function store:lock(key, opts) end

---@param key string
---@param opts? dlock.lock_options
---@nodiscard
---@return dlock.lease|nil lease
---@return string? message
---@return dlock.code? code
function store:try_lock(key, opts) end

---@param key string
---@param opts dlock.lock_options
---@param fn fun(lease: dlock.lease, ...): ...
---@param ... any
---@return true|nil ok
---@return any ... # fn's results, or message and code
---@overload fun(self, key: string, fn: fun(lease: dlock.lease, ...), ...)
function store:with(key, opts, fn, ...) end

---@class dlock.histogram
---@field count integer
---@field sum number seconds
---@field buckets {le: number, count: integer}[] counts up to each bound

---@class dlock.stats
---@field acquires table<string, integer> by code, "granted" and "served"
---@field held integer
---@field lost integer
---@field renewed integer
---@field renew_failed integer
---@field local_handoffs integer leases that were handed to another local waiter
---@field wait dlock.histogram
---@field hold dlock.histogram

---@param format? "prometheus"
---@return dlock.stats|string|nil
---@return string? message
---@return string? code invalid: another format
function store:stats(format) end

--- What puts a name that holds it into the slot of the lock on key: Redis.
---@param key string
---@return string|nil
---@return string? message
---@return string? code
function store:tag(key) end

---@param key string
---@param fn fun(lease: dlock.lease): string|nil, string?, string?
---@param opts? dlock.acquire_options
---@return string|nil result
---@return string? message
---@return dlock.code? code
function store:once(key, fn, opts) end

---@param key string
---@param seconds number the period, 0.1 to 31536000
---@param fn fun(lease: dlock.lease): ...
---@return true|nil # then fn's results; or nil, message, code
function store:once_per(key, seconds, fn) end

---@param detached string
---@param opts? { max_hold?: number }
---@nodiscard
---@return dlock.lease|nil lease
---@return string? message
---@return dlock.code? code
function store:attach(detached, opts) end

---What can be acquired: a mutex, both halves of a rwlock, a semaphore, an
---election, and what dlock.all gives.
---@class dlock.lockable
local mutex = {}

---@class dlock.mutex: dlock.lockable

---@class dlock.semaphore: dlock.lockable
---@field acquire fun(self, opts?: dlock.permit_options): dlock.lease|nil
---@field try_acquire fun(self, opts?: dlock.permit_options): dlock.lease|nil

---@class dlock.rwlock
local rwlock = {}

---@return dlock.lockable
function rwlock:read() end

---@return dlock.lockable
function rwlock:write() end

---@class dlock.leader
---@field owner string
---@field value? string
---@field fence? integer
---@field fence_at_most? true its fence is this or a smaller one

---@class dlock.election: dlock.lockable
local election = {}

---@param opts? dlock.acquire_options
---@return dlock.lease|nil lease
---@return string? message
---@return dlock.code? code
function election:campaign(opts) end

---@return dlock.leader|nil leader nil and no message: nobody
---@return string? message
---@return dlock.code? code
function election:leader() end

---@param timeout? number
---@return true|nil changed
---@return string? message
---@return dlock.code? code
function election:wait_change(timeout) end

---@param opts? dlock.acquire_options
---@nodiscard
---@return dlock.lease|nil lease
---@return string? message
---@return dlock.code? code
function mutex:acquire(opts) end

---@param opts? dlock.try_options
---@nodiscard
---@return dlock.lease|nil lease
---@return string? message
---@return dlock.code? code
function mutex:try_acquire(opts) end

---@param opts dlock.acquire_options
---@param fn fun(lease: dlock.lease, ...): ...
---@param ... any
---@return true|nil ok
---@return any ... # fn's results, or message and code
---@overload fun(self, fn: fun(lease: dlock.lease, ...), ...)
function mutex:with(opts, fn, ...) end

---@return boolean|nil held
---@return string? message
---@return dlock.code? code
function mutex:locked() end

---@return true
function mutex:cancel() end

---@class dlock.lease
---@field key string
---@field fence integer
---@field owner string
---@field mode "exclusive"|"shared"|"semaphore"
---@field permits? integer of a semaphore
---@field ttl number seconds
local lease = {}

---@param given? number|dlock.release_options
---@return true|nil ok
---@return string? message
---@return dlock.code? code
function lease:release(given) end

---@return true|nil ok
---@return string? message
---@return dlock.code? code forked
function lease:release_later() end

---@param ttl? number
---@return number|nil remaining
---@return string? message
---@return dlock.code? code
function lease:extend(ttl) end

---@return boolean
function lease:held() end

---@return number seconds
function lease:remaining() end

---@param fn fun(lease: dlock.lease, reason: string)
---@return true
function lease:on_lost(fn) end

---@param timeout? number
---@return true|nil lost
---@return string? message
---@return dlock.code? code
function lease:wait_lost(timeout) end

---@return true|nil ok
---@return string? message
---@return dlock.code? code
function lease:downgrade() end

---@param given? number|dlock.release_options
---@return true|nil ok
---@return string? message
---@return dlock.code? code
function lease:resign(given) end

---@return boolean
function lease:revoked() end

---@param fn fun(lease: dlock.lease, reason: string)
---@return true
function lease:on_revoke(fn) end

---@param ... string|number the store's own command
---@return any
function lease:guard(...) end

---@nodiscard
---@return string|nil detached
---@return string? message
---@return dlock.code? code
function lease:detach() end

---What dlock.all's acquire gives: a lease that stands for several.
---@class dlock.leases: dlock.lease
---@field leases dlock.lease[] in the order of the list

---What dlock.fallback's acquire gives in place of a lock that is unavailable:
---without fence, detach and guard.
---@class dlock.degraded_lease: dlock.lease
---@field degraded true

---@class dlock.canceller
local canceller = {}

---@return true
function canceller:cancel() end

---@return boolean
function canceller:cancelled() end

return dlock
