---@meta dlock
-- luacheck: ignore 212 241 631
-- Types for editors with the Lua language server. Nothing loads this
-- file. .ci/types makes it from the annotations in lua/dlock: change
-- these.

--- What dlock.open takes.
---@class dlock.open_options
---@field url? string # Where the server is, as above. (default: `$DLOCK_URL`, else the file store of this user)
---@field username? string # Goes before the user in the URL: see Passwords. (up to 512 bytes)
---@field password? string|(fun(): string?, any) # The password, or a function that gives it. It goes before that in the URL: see Passwords. (up to 4096 bytes)
---@field password_file? string # A file with the password in its first line: see Passwords. (up to 4096 bytes)
---@field sentinel_username? string # `redis+sentinel`: the user for the Sentinels. They are never given the user and password of Redis. (up to 512 bytes)
---@field sentinel_password? string # `redis+sentinel`: the password for the Sentinels. (up to 4096 bytes)
---@field sentinel_password_file? string # `redis+sentinel`: a file with that password in its first line. (up to 4096 bytes)
---@field wait_replicas? integer|"all" # Redis: so many replicas, or `"all"`, must have a grant or a renewal before it counts; only `"all"` keeps every lock. More than 0 is `invalid` on other stores. (an integer from 0 to 100, or "all"; default: 0)
---@field wait_timeout? number # Redis: how long the replicas may take, at most half of `io_timeout`. Other stores ignore it. (a number of seconds from 0.001 to 60; default: 0.5)
---@field address_map? table<string, string> # `redis+sentinel`: where a server is reached that the Sentinels name by another address: `{ ["10.0.0.7:6379"] = "localhost:7001" }`.
---@field db? integer # `redis+unix`: the number of the database. Other URLs have it in their path. (an integer from 0 to 99999; default: 0)
---@field prefix? string # Stands before each key on the server; on ZooKeeper it is a path. (up to 256 bytes; default: `dlock:` on Redis, `/dlock` on ZooKeeper, none on files)
---@field session_timeout? number # ZooKeeper: how long the locks of a dead holder stay held. Other stores ignore it. (a number of seconds from 0.1 to 86400; default: 10)
---@field acl? "creator"|"open" # ZooKeeper: with `"creator"` nodes belong to the user that makes them. It is `invalid` on other stores. (default: `"creator"` with a username, else `"open"`)
---@field sasl? boolean # ZooKeeper: `true` is `unsupported`. It is `invalid` on other stores. (default: `false`)
---@field connect_timeout? number # How long an attempt to connect may take. A wait goes on with the next attempt until its `timeout` is over. (a number of seconds from 0.01 to 3600; default: 3)
---@field io_timeout? number # How long a release, extend, try or ping may take. Also: after a wait is over, how long dlock waits for the server to confirm that nothing is left of it. (a number of seconds from 0.01 to 3600; default: 2)
---@field fence_memory? number # Redis: how long the fence counter of a key outlives its last use (the fence counter). Other stores ignore it. (a number of seconds from 1 to 31536000; default: 600)
---@field name? string # The name of this process in `inspect` and in messages. (1 to 64 bytes; default: host/pid)
---@field host? "auto"|"blocking"|"resty"|"cqueues"|"luv" # How to wait. `"auto"` recognises nginx and cqueues. (default: `"auto"`)
---@field scope? "request"|"worker" # OpenResty: waits and leases end with their request, or with the worker. (default: `"request"`)
---@field id? string # Names the store in the order of `dlock.all`. Set it if programs spell the URL differently. (1 to 4096 bytes; default: the URL)
---@field on_event? fun(event: dlock.event) # Called with `{ kind =, message =, key = }`: see Events.
---@field tls? dlock.tls_options # Only with a URL with TLS: see TLS.
---@field ttl? number # How long a hold lasts without renewal. (a number of seconds from 0.1 to 31536000; default: 30)
---@field renew? boolean # The renewal thread extends the lease at a third of the ttl, while the lease object and the process live. (default: `true`)
---@field max_hold? number # The lease ends then, renewed or not, so that a program that hangs frees the lock. (a number of seconds from 0.01 to 1000000000, or math.huge; default: `math.huge`)
---@field min_hold? number # The key stays held for at least this time from the grant, even after a release: see min_hold. (a number of seconds from 0 to 31536000; default: 0)
---@field timeout? number # How long to wait, also for a server that is not there (then the code is `unavailable`); 0 is a try. A campaign waits for ever, a release for the `io_timeout`, unless this is given. (a number of seconds from 0 to 1000000000, or math.huge; default: 5)

--- What the table tls takes.
---@class dlock.tls_options
---@field cafile? string # A file (PEM) with the CAs that are trusted. (up to 4096 bytes; default: those of the system)
---@field capath? string # A directory of such certificates by hashes (`openssl rehash`), or several with `:` between them. (up to 4096 bytes; default: that of the system)
---@field cert? string # Our certificate (PEM), with the chain to its CA behind it. (up to 4096 bytes)
---@field key? string # The key (PEM) of our certificate. (up to 4096 bytes; default: in the file `cert`)
---@field key_password? string # Opens an encrypted key. (1 to 1024 bytes)
---@field key_password_file? string # A file with that password in its first line. (up to 4096 bytes)
---@field server_name? string # The name that the server's certificate must have; it is also asked for (SNI). (1 to 253 bytes; default: the URL's host)
---@field verify? boolean # `false` believes any server that answers, and says so by the event `insecure`, or on standard error. (default: `true`)
---@field min_version? "1.2"|"1.3" # The oldest version of TLS that is spoken. (default: `"1.2"`)
---@field ciphers? string # The ciphers of TLS 1.2, as OpenSSL writes them. (up to 4096 bytes; default: OpenSSL's)
---@field ciphersuites? string # The ciphers of TLS 1.3, as OpenSSL writes them. (up to 4096 bytes; default: OpenSSL's)

--- What store:mutex takes.
---@class dlock.mutex_options
---@field ttl? number # How long a hold lasts without renewal. (a number of seconds from 0.1 to 31536000; default: 30)
---@field renew? boolean # The renewal thread extends the lease at a third of the ttl, while the lease object and the process live. (default: `true`)
---@field max_hold? number # The lease ends then, renewed or not, so that a program that hangs frees the lock. (a number of seconds from 0.01 to 1000000000, or math.huge; default: `math.huge`)
---@field min_hold? number # The key stays held for at least this time from the grant, even after a release: see min_hold. (a number of seconds from 0 to 31536000; default: 0)
---@field timeout? number # How long to wait, also for a server that is not there (then the code is `unavailable`); 0 is a try. A campaign waits for ever, a release for the `io_timeout`, unless this is given. (a number of seconds from 0 to 1000000000, or math.huge; default: 5)
---@field reentrant? boolean # The owner may enter again: see Reentrant locks. (default: `false`)
---@field owner? string # The owner, for reentrancy and in messages. (1 to 95 bytes; default: the coroutine)
---@field fair? boolean # First come, first served. With `false`, in an event loop on Redis, a released lock may go to the next waiter of the same process although other processes asked earlier. (default: `true`)
---@field local_handoffs? integer # With `fair = false`: hand-offs inside the process in a row, before other processes have their turn. (an integer from 0 to 1000; default: 16)

--- What store:semaphore takes.
---@class dlock.lockable_options
---@field ttl? number # How long a hold lasts without renewal. (a number of seconds from 0.1 to 31536000; default: 30)
---@field renew? boolean # The renewal thread extends the lease at a third of the ttl, while the lease object and the process live. (default: `true`)
---@field max_hold? number # The lease ends then, renewed or not, so that a program that hangs frees the lock. (a number of seconds from 0.01 to 1000000000, or math.huge; default: `math.huge`)
---@field min_hold? number # The key stays held for at least this time from the grant, even after a release: see min_hold. (a number of seconds from 0 to 31536000; default: 0)
---@field timeout? number # How long to wait, also for a server that is not there (then the code is `unavailable`); 0 is a try. A campaign waits for ever, a release for the `io_timeout`, unless this is given. (a number of seconds from 0 to 1000000000, or math.huge; default: 5)
---@field owner? string # The owner, for reentrancy and in messages. (1 to 95 bytes; default: the coroutine)
---@field fair? boolean # First come, first served. With `false`, in an event loop on Redis, a released lock may go to the next waiter of the same process although other processes asked earlier. (default: `true`)
---@field local_handoffs? integer # With `fair = false`: hand-offs inside the process in a row, before other processes have their turn. (an integer from 0 to 1000; default: 16)

--- What store:lock takes.
---@class dlock.lock_options
---@field ttl? number # How long a hold lasts without renewal. (a number of seconds from 0.1 to 31536000; default: 30)
---@field renew? boolean # The renewal thread extends the lease at a third of the ttl, while the lease object and the process live. (default: `true`)
---@field max_hold? number # The lease ends then, renewed or not, so that a program that hangs frees the lock. (a number of seconds from 0.01 to 1000000000, or math.huge; default: `math.huge`)
---@field min_hold? number # The key stays held for at least this time from the grant, even after a release: see min_hold. (a number of seconds from 0 to 31536000; default: 0)
---@field timeout? number # How long to wait, also for a server that is not there (then the code is `unavailable`); 0 is a try. A campaign waits for ever, a release for the `io_timeout`, unless this is given. (a number of seconds from 0 to 1000000000, or math.huge; default: 5)
---@field reentrant? boolean # The owner may enter again: see Reentrant locks. (default: `false`)
---@field owner? string # The owner, for reentrancy and in messages. (1 to 95 bytes; default: the coroutine)
---@field fair? boolean # First come, first served. With `false`, in an event loop on Redis, a released lock may go to the next waiter of the same process although other processes asked earlier. (default: `true`)
---@field local_handoffs? integer # With `fair = false`: hand-offs inside the process in a row, before other processes have their turn. (an integer from 0 to 1000; default: 16)
---@field value? string # Shown beside the holder, by `inspect` and `election:leader`. (up to 1024 bytes)
---@field cancel? dlock.canceller # Ends the wait by `canceller:cancel()`.

--- What store:try_lock takes.
---@class dlock.try_lock_options
---@field ttl? number # How long a hold lasts without renewal. (a number of seconds from 0.1 to 31536000; default: 30)
---@field renew? boolean # The renewal thread extends the lease at a third of the ttl, while the lease object and the process live. (default: `true`)
---@field max_hold? number # The lease ends then, renewed or not, so that a program that hangs frees the lock. (a number of seconds from 0.01 to 1000000000, or math.huge; default: `math.huge`)
---@field min_hold? number # The key stays held for at least this time from the grant, even after a release: see min_hold. (a number of seconds from 0 to 31536000; default: 0)
---@field reentrant? boolean # The owner may enter again: see Reentrant locks. (default: `false`)
---@field owner? string # The owner, for reentrancy and in messages. (1 to 95 bytes; default: the coroutine)
---@field fair? boolean # First come, first served. With `false`, in an event loop on Redis, a released lock may go to the next waiter of the same process although other processes asked earlier. (default: `true`)
---@field local_handoffs? integer # With `fair = false`: hand-offs inside the process in a row, before other processes have their turn. (an integer from 0 to 1000; default: 16)
---@field value? string # Shown beside the holder, by `inspect` and `election:leader`. (up to 1024 bytes)
---@field cancel? dlock.canceller # Ends the wait by `canceller:cancel()`.

--- What mutex:acquire takes.
---@class dlock.acquire_options
---@field ttl? number # How long a hold lasts without renewal. (a number of seconds from 0.1 to 31536000; default: 30)
---@field renew? boolean # The renewal thread extends the lease at a third of the ttl, while the lease object and the process live. (default: `true`)
---@field max_hold? number # The lease ends then, renewed or not, so that a program that hangs frees the lock. (a number of seconds from 0.01 to 1000000000, or math.huge; default: `math.huge`)
---@field min_hold? number # The key stays held for at least this time from the grant, even after a release: see min_hold. (a number of seconds from 0 to 31536000; default: 0)
---@field timeout? number # How long to wait, also for a server that is not there (then the code is `unavailable`); 0 is a try. A campaign waits for ever, a release for the `io_timeout`, unless this is given. (a number of seconds from 0 to 1000000000, or math.huge; default: 5)
---@field value? string # Shown beside the holder, by `inspect` and `election:leader`. (up to 1024 bytes)
---@field cancel? dlock.canceller # Ends the wait by `canceller:cancel()`.

--- What mutex:try_acquire takes.
---@class dlock.try_options
---@field ttl? number # How long a hold lasts without renewal. (a number of seconds from 0.1 to 31536000; default: 30)
---@field renew? boolean # The renewal thread extends the lease at a third of the ttl, while the lease object and the process live. (default: `true`)
---@field max_hold? number # The lease ends then, renewed or not, so that a program that hangs frees the lock. (a number of seconds from 0.01 to 1000000000, or math.huge; default: `math.huge`)
---@field min_hold? number # The key stays held for at least this time from the grant, even after a release: see min_hold. (a number of seconds from 0 to 31536000; default: 0)
---@field value? string # Shown beside the holder, by `inspect` and `election:leader`. (up to 1024 bytes)
---@field cancel? dlock.canceller # Ends the wait by `canceller:cancel()`.

--- What semaphore:acquire takes.
---@class dlock.permit_options
---@field ttl? number # How long a hold lasts without renewal. (a number of seconds from 0.1 to 31536000; default: 30)
---@field renew? boolean # The renewal thread extends the lease at a third of the ttl, while the lease object and the process live. (default: `true`)
---@field max_hold? number # The lease ends then, renewed or not, so that a program that hangs frees the lock. (a number of seconds from 0.01 to 1000000000, or math.huge; default: `math.huge`)
---@field min_hold? number # The key stays held for at least this time from the grant, even after a release: see min_hold. (a number of seconds from 0 to 31536000; default: 0)
---@field timeout? number # How long to wait, also for a server that is not there (then the code is `unavailable`); 0 is a try. A campaign waits for ever, a release for the `io_timeout`, unless this is given. (a number of seconds from 0 to 1000000000, or math.huge; default: 5)
---@field value? string # Shown beside the holder, by `inspect` and `election:leader`. (up to 1024 bytes)
---@field cancel? dlock.canceller # Ends the wait by `canceller:cancel()`.
---@field permits? integer # How many permits of a semaphore to take. (an integer from 1 to 2147483647; default: 1)

--- What semaphore:try_acquire takes.
---@class dlock.try_permit_options
---@field ttl? number # How long a hold lasts without renewal. (a number of seconds from 0.1 to 31536000; default: 30)
---@field renew? boolean # The renewal thread extends the lease at a third of the ttl, while the lease object and the process live. (default: `true`)
---@field max_hold? number # The lease ends then, renewed or not, so that a program that hangs frees the lock. (a number of seconds from 0.01 to 1000000000, or math.huge; default: `math.huge`)
---@field min_hold? number # The key stays held for at least this time from the grant, even after a release: see min_hold. (a number of seconds from 0 to 31536000; default: 0)
---@field value? string # Shown beside the holder, by `inspect` and `election:leader`. (up to 1024 bytes)
---@field cancel? dlock.canceller # Ends the wait by `canceller:cancel()`.
---@field permits? integer # How many permits of a semaphore to take. (an integer from 1 to 2147483647; default: 1)

--- What lease:release takes.
---@class dlock.release_options
---@field early? boolean # Gives the rest of `min_hold` up: the work failed, and another may try. (default: `false`)
---@field timeout? number # How long to wait, also for a server that is not there (then the code is `unavailable`); 0 is a try. A campaign waits for ever, a release for the `io_timeout`, unless this is given. (a number of seconds from 0 to 1000000000, or math.huge; default: 5)

--- What store:attach takes.
---@class dlock.attach_options
---@field max_hold? number # The lease ends then, renewed or not, so that a program that hangs frees the lock. (a number of seconds from 0.01 to 1000000000, or math.huge; default: `math.huge`)

--- What store:list takes.
---@class dlock.list_options
---@field cursor? string # Where the last page ended. A cursor that no list gave is `invalid`. (up to 4096 bytes)
---@field limit? integer # About how many keys to give. (an integer from 1 to 1000; default: 1000)

--- What dlock.fallback takes.
---@class dlock.fallback_list
---@field [integer] dlock.lockable
---@field grace? number # How long the store must have been unavailable before the next lock is given. Choose no less than the longest ttl of the lock's other users: if the store is down for everybody, they have passed their deadlines then. (a number of seconds from 0 to 31536000; default: the ttl of the request)
---@field hold_off? number # How long the store must answer before its lock is used again. (a number of seconds from 0 to 31536000; default: 10)
---@field on_degraded? fun(what: dlock.degraded): boolean? # Called with `{ key, message, unavailable, instead }` before the next lock is asked for. When it returns `false`, or raises an error (event `callback`), the answer is `unavailable`.

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

--- What dlock.canceller gives, and the option `cancel` takes.
---@class dlock.canceller
local canceller = {}

--- Ends every wait that was given this canceller (cancel = canceller) with the code "cancelled", those under way and those to come. A second call does nothing.
---@return true
function canceller:cancel() end

--- Whether cancel() was called.
---@return boolean
function canceller:cancelled() end

--- What on_event is called with.
---@class dlock.event
---@field kind string
---@field message string
---@field key? string of the lease or lock that it is about

---@class dlock
---@field VERSION string
local dlock = {}

--- Opens a store; connects at the first use, so there is no I/O here.
---@param where? string|dlock.open_options the URL ($DLOCK_URL, else the embedded store of this user), or a table of options with `url` in it
---@nodiscard
---@return dlock.store|nil store
---@return string? message
---@return dlock.code? code invalid, unsupported
function dlock.open(where) end

--- Something to end waits with: acquire{ cancel = c }, then c:cancel().
---@return dlock.canceller
function dlock.canceller() end

--- Several locks of any stores as one: all of them or none.
---@param list dlock.lockable[] no lock twice
---@return dlock.all
function dlock.all(list) end

--- A lock, and others in its place while its store is unavailable. Between those who hold the first and those who hold another there is no exclusion.
---@param list dlock.fallback_list
---@return dlock.lockable|nil
---@return string? message
---@return dlock.code? code invalid
function dlock.fallback(list) end

--- What several stores have counted, as one /metrics page, which has the HELP and TYPE of a metric once. `shared` names a lua_shared_dict by which each worker of nginx shows what all of them have counted. No I/O.
---@param list dlock.prometheus_list
---@return string|nil page
---@return string? message
---@return dlock.code? code invalid, unsupported, unavailable, closed
function dlock.prometheus(list) end

--- Has the process give back what it holds at these signals, which then do what they did before: the default ends the process, a handler runs. Stores are closed by that. A signal that is ignored stays so.
---@param ... "TERM"|"INT"|"HUP"|"QUIT"|"USR1"|"USR2"|"ALRM"
---@return true|nil
---@return string? message
---@return dlock.code? code unsupported, unavailable
function dlock.release_on(...) end

--- An on_event that writes each event as a line of JSON.
---@param file? file* (nginx's error log, elsewhere standard error)
---@return fun(event: dlock.event)
function dlock.logger(file) end

--- What dlock.all gives: its leases are each a dlock.leases.
---@class dlock.all: dlock.lockable
---@field acquire fun(self: dlock.all, opts?: dlock.acquire_options): dlock.leases|nil, string?, dlock.code?

--- What dlock.all's acquire gives: a lease that stands for several.
---@class dlock.leases: dlock.lease
---@field leases dlock.lease[] in the order of the list

---@class dlock.leader
---@field owner string
---@field value? string
---@field fence? integer
---@field fence_at_most? true the fence is this or a smaller one

--- What store:election gives.
---@class dlock.election: dlock.lockable
local election = {}

--- Returns a lease once we lead. Waits for ever unless `timeout` is given here or to `store:election`. `value` is published. See elections.
---@param opts? dlock.acquire_options
---@nodiscard
---@return dlock.lease|nil # ends with lease:resign(), or release
---@return string? message
---@return dlock.code? code
function election:campaign(opts) end

--- Returns `{ owner, value, fence }`, `nil` and no message when nobody leads.
---@return dlock.leader|nil
---@return string? message
---@return dlock.code? code
function election:leader() end

--- Returns `true` when the leader is another one, or none, than the one that this object saw last. A change between two calls is not missed.
---@param timeout? number seconds (for ever)
---@return true|nil
---@return string? message
---@return dlock.code? code timeout, cancelled, unavailable, closed
function election:wait_change(timeout) end

--- What on_degraded is called with.
---@class dlock.degraded
---@field key string
---@field message string
---@field unavailable string the store that does not answer
---@field instead string the store that is asked next

--- What dlock.fallback's acquire gives in place of a lock that is unavailable: without fence, detach and guard.
---@class dlock.degraded_lease: dlock.lease
---@field degraded true

--- What store:rwlock gives.
---@class dlock.rwlock
local rwlock = {}

--- Returns the half for readers, a lockable. Strictly first come, first served: a reader does not pass a waiting writer.
---@return dlock.lockable
function rwlock:read() end

--- Returns the half for a writer, a lockable. Its holder is alone.
---@return dlock.lockable
function rwlock:write() end

---@class dlock.semaphore: dlock.lockable
---@field acquire fun(self: dlock.semaphore, opts?: dlock.permit_options): dlock.lease|nil, string?, dlock.code?
---@field try_acquire fun(self: dlock.semaphore, opts?: dlock.try_permit_options): dlock.lease|nil, string?, dlock.code?

--- What you hold.
---@class dlock.lease
---@field key string
---@field fence integer
---@field owner string
---@field mode "exclusive"|"shared"|"semaphore"
---@field permits? integer of a semaphore
---@field ttl number seconds
local lease = {}

--- Ends the hold. Returns `true`; `lost` if it was not ours any more; `unavailable`. A second call gives the first result. It never touches somebody else's lock. `lease:release { timeout =, early = true }` gives the rest of `min_hold` up.
---@param timeout? number|dlock.release_options seconds to wait for the store (its io_timeout)
---@return true|nil
---@return string? message
---@return dlock.code? code lost, unavailable, closed, forked
function lease:release(timeout) end

--- Hands the release to the renewal thread. Returns `true` at once, also where nothing can wait (filters, finalisers); `forked` in a child that forked after the lock was taken.
---@return true|nil
---@return string? message
---@return dlock.code? code forked
function lease:release_later() end

--- The lease ends `ttl` seconds from now (its own ttl unless given), and later renewals use that ttl. Returns the seconds that remain. It always asks the store.
---@param ttl? number seconds (as before)
---@return number|nil remaining seconds
---@return string? message
---@return dlock.code? code lost, unavailable, closed, forked, invalid
function lease:extend(ttl) end

--- Returns `true` when the lease is lost, else `timeout`. Of a lease that was given up before (released, detached) it is `lost`.
---@param timeout? number seconds (for ever)
---@return true|nil
---@return string? message
---@return dlock.code? code timeout, cancelled, closed
function lease:wait_lost(timeout) end

--- Returns a string that carries the lease (Redis). This object gives the lease up. See detach and attach.
---@nodiscard
---@return string|nil
---@return string? message
---@return dlock.code? code lost, unsupported, unavailable, closed, forked
function lease:detach() end

--- The same as `release`.
---@param timeout? number|dlock.release_options
---@return true|nil
---@return string? message
---@return dlock.code? code lost, unavailable, closed, forked
function lease:resign(timeout) end

--- A write lock becomes a read lock, without a gap. Returns `true`; `unsupported` when it is shared already.
---@return true|nil
---@return string? message
---@return dlock.code? code lost, unsupported, unavailable, closed, forked
function lease:downgrade() end

--- Does a write in the same store, only if the lease is still ours, in one step: see Redis, ZooKeeper. On files it is `unsupported`. `lost` when it was refused.
---@param ... string|number
---@return any
---@return string? message
---@return dlock.code? code
function lease:guard(...) end

--- Calls `fn(lease, reason)` once, in Lua's own thread: see on_lost.
---@param fn fun(lease: dlock.lease, reason: string)
---@return true
function lease:on_lost(fn) end

--- Calls `fn(lease, reason)` once when somebody asked for the lock, also before this call: see on_revoke.
---@param fn fun(lease: dlock.lease, reason: string)
---@return true
function lease:on_revoke(fn) end

--- Whether somebody asked for the lock (`store:revoke`), as far as this process has heard. No I/O.
---@return boolean
function lease:revoked() end

--- `true` while our own deadline has not passed and no loss was seen. No I/O. Once false, it is false for ever.
---@return boolean
function lease:held() end

--- Seconds until our own deadline, 0 when lost. No I/O.
---@return number
function lease:remaining() end

--- What can be acquired: a mutex, both halves of a rwlock, a semaphore, an election, and what dlock.all and dlock.fallback give.
---@class dlock.lockable
local mutex = {}

--- Waits in the queue for at most `timeout` seconds. Returns a lease.
---@param opts? dlock.acquire_options
---@nodiscard
---@return dlock.lease|nil
---@return string? message
---@return dlock.code? code
function mutex:acquire(opts) end

--- Returns a lease, or `busy` at once; it does not pass waiters.
---@param opts? dlock.try_options
---@nodiscard
---@return dlock.lease|nil
---@return string? message
---@return dlock.code? code
function mutex:try_acquire(opts) end

--- Acquires, calls `fn(lease, …)` and releases. Returns `true` and the results of fn; `nil, message, code` when it was not acquired (and fn not run); `nil, message, "lost", results…` when the lock was lost while fn ran. An error of fn is passed on unchanged.
---@param opts? dlock.acquire_options
---@param fn fun(lease: dlock.lease, ...): ...
---@param ... any for fn, behind the lease
---@return true|nil
---@return any ... # fn's results; or the message and the code
---@overload fun(self, fn: (fun(lease: dlock.lease, ...): ...), ...): true|nil, any
function mutex:with(opts, fn, ...) end

--- Whether somebody holds it now. It takes one round trip.
---@return boolean|nil
---@return string? message
---@return dlock.code? code
function mutex:locked() end

--- Ends every wait of this object with `cancelled`.
---@return true
function mutex:cancel() end

---@class dlock.mutex: dlock.lockable

---@class dlock.prometheus_list
---@field [integer] dlock.store
---@field shared? string a lua_shared_dict: all workers of nginx on one page

---@alias dlock.code
---| "busy"        # a try: somebody else holds it now
---| "timeout"     # waited `timeout` seconds; nothing is left behind
---| "cancelled"   # the wait was cancelled, or its store closed
---| "lost"        # the lease is not ours any more
---| "unavailable" # the store cannot be reached, or cannot serve
---| "denied"      # authentication or permissions refused us
---| "invalid"     # a URL, key or value that cannot be used
---| "closed"      # the store was closed
---| "forked"      # made and used before a `fork()`, used in the child
---| "unsupported" # this store or host cannot do that; the message says what can

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
---@field local_handoffs integer leases that were handed to a local waiter
---@field degraded integer locks that dlock.fallback gave instead
---@field wait dlock.histogram
---@field hold dlock.histogram

--- What dlock.open gives.
---@class dlock.store
local store = {}

--- Connects if need be, and asks the server for a sign of life. Returns the round trip in seconds.
---@param timeout? number seconds (io_timeout, plus connect_timeout)
---@return number|nil round_trip seconds
---@return string? message
---@return dlock.code? code unavailable, denied, closed, forked
function store:ping(timeout) end

--- Cancels waits, releases leases, ends threads. Returns `true`. See closing.
---@param timeout? number seconds at most
---@return true|nil
---@return string? message
---@return dlock.code? code unavailable, forked
function store:close(timeout) end

--- Makes a mutex on `key`, which has 1 to 512 bytes.
---@param key string 1 to 512 bytes
---@param opts? dlock.mutex_options
---@return dlock.mutex|nil
---@return string? message
---@return dlock.code? code invalid
function store:mutex(key, opts) end

--- Makes a read-write lock on `key`.
---@param key string
---@param opts? dlock.mutex_options
---@return dlock.rwlock|nil
---@return string? message
---@return dlock.code? code invalid
function store:rwlock(key, opts) end

--- Makes a semaphore on `key`: so many permits (1 to 2147483647) can be held together.
---@param key string
---@param permits integer from 1 to 2147483647
---@param opts? dlock.lockable_options
---@return dlock.semaphore|nil
---@return string? message
---@return dlock.code? code invalid
function store:semaphore(key, permits, opts) end

--- Makes an election on `key`.
---@param key string
---@param opts? dlock.lockable_options
---@return dlock.election|nil
---@return string? message
---@return dlock.code? code invalid
function store:election(key, opts) end

--- Returns the holders and waiters of `key`, `nil` and no message when there are none. See inspect and list.
---@param key string
---@return dlock.inspected|nil
---@return string? message
---@return dlock.code? code
function store:inspect(key) end

--- Returns an array of keys that are held or waited for, in no order, and a cursor for the next call (`{ cursor = }`), `nil` at the end. `limit` says about how many, 1 to 1000 (1000). See inspect and list.
---@param prefix? string
---@param opts? dlock.list_options
---@return string[]|nil keys
---@return string? cursor nil at the end; else the message
---@return dlock.code? code
function store:list(prefix, opts) end

--- For admins: ends every hold of `key`. Returns `true`, also when nobody held it. Holders see `lost`, at the latest at their next renewal. Until then two holders may believe that they hold it. Fences keep rising.
---@param key string
---@return true|nil
---@return string? message
---@return dlock.code? code
function store:break_lock(key) end

--- Asks the holders of `key` to release it (`lease:on_revoke`, `lease:revoked`). Returns `true`.
---@param key string
---@return true|nil
---@return string? message
---@return dlock.code? code
function store:revoke(key) end

--- Redis: returns a string such as `"{123456}"`. A name that contains it is in the slot of the lock on `key`. On other stores it is `unsupported`. No I/O.
---@param key string
---@return string|nil tag "{123456}"
---@return string? message
---@return dlock.code? code unsupported on other stores than Redis; closed
function store:tag(key) end

--- Returns a lease: short for `mutex(key, options):acquire(options)`.
---@param key string
---@param opts? dlock.lock_options
---@nodiscard
---@return dlock.lease|nil
---@return string? message
---@return dlock.code? code
function store:lock(key, opts) end

--- Returns a lease: short for `mutex(key, options):try_acquire(options)`.
---@param key string
---@param opts? dlock.try_lock_options
---@nodiscard
---@return dlock.lease|nil
---@return string? message
---@return dlock.code? code
function store:try_lock(key, opts) end

--- Short for `mutex(key, options):with(options, fn, …)`.
---@param key string
---@param opts? dlock.lock_options
---@param fn fun(lease: dlock.lease, ...): ...
---@param ... any for fn, behind the lease
---@return true|nil
---@return any ... # fn's results; or the message and the code
---@overload fun(self, key: string, fn: (fun(lease: dlock.lease, ...): ...), ...): true|nil, any
function store:with(key, opts, fn, ...) end

--- Returns the counters and histograms of this process, or with `"prometheus"` text for a /metrics page; another format is `invalid`. See stats. No I/O.
---@param format? "prometheus"
---@return dlock.stats|string|nil
---@return string? message
---@return dlock.code? code invalid, closed
function store:stats(format) end

--- Single flight: one caller runs `fn(lease)` under the lock, and the others get the string that it returned. See once.
---@param key string
---@param fn fun(lease: dlock.lease): string|nil, string?, string?
---@param opts? dlock.acquire_options
---@return string|nil
---@return string? message
---@return dlock.code? code
function store:once(key, fn, opts) end

--- Periodic work: at most one run of `fn(lease)` that succeeds in each period (0.1 to 31536000 seconds), in all processes. Results as of `with`; `busy` when it was done or is being done. See once a period.
---@param key string
---@param seconds number the period, 0.1 to 31536000, counted by the server from the grant
---@param fn fun(lease: dlock.lease): ...
---@return true|nil
---@return any ... # fn's results; or the message and the code
function store:once_per(key, seconds, fn) end

--- Makes a lease again from the string of `lease:detach()` (Redis). See detach and attach.
---@param detached string
---@param opts? dlock.attach_options
---@nodiscard
---@return dlock.lease|nil
---@return string? message
---@return dlock.code? code lost, invalid, unsupported, unavailable
function store:attach(detached, opts) end

return dlock
