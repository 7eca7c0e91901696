-- Locks that outlive the command. acquire prints a handle (from
-- lease:detach()); release attaches it. extend and held-by do not, so it stays
-- good.
local core = require "dlock.core"
local json = require "dlock.json"
local lockable = require "dlock.lockable"
local out = require "dlock.cli.out"
local results = require "dlock.results"
local run = require "dlock.cli.run"
local signals = require "dlock.cli.signals"
local stores = require "dlock.store"
local text = require "dlock.text"

local handle = {}

local EX_IOERR = 74

-- Fails where a handle would end with this process.
local function portable(store)
  local client = stores.client(store)
  local fine, message, code = client.engine:portable()
  if code == "unsupported" then
    message = ("unsupported: %s: a lock of this store ends with its process, so"
      .. " it has no handle; hold it for a whole script by dlock run KEY -- sh"
      .. " SCRIPT, or use Redis, etcd, PostgreSQL or MySQL"):format(
      text.quote(client.shown))
  end
  return fine, message, code
end

function handle.acquire(store, request, waited)
  local fine, message, code = portable(store)
  if not fine then return nil, message, code end
  local lock
  lock, message, code = run.choose(store, request)
  if not lock then return nil, message, code end
  local over, opts = request.tell_waiting(store), run.acquire_options(request)
  local lease
  lease, message, code = run.patiently(store, request, opts.timeout,
    function(timeout)
      opts.timeout = timeout
      return lock:acquire(opts)
    end)
  over()
  local signal = waited()
  signals.beside(nil)
  if not lease then
    return nil, message, code
  elseif signal then
    lease:release()
    return 128 + signal
  end
  local given
  given, message, code = lease:detach()
  if not given then return nil, message, code end
  core.write(function() -- no signal may end us: nothing else has the handle
    out.say(request.options.json and json.encode { handle = given,
      key = lease.key, fence = lease.fence } or given)
    out.flushed()
  end)
  if out.flushed() then return 0 end
  lease = store:attach(given) -- nothing else can give it back
  if lease then lease:release() end
  return EX_IOERR
end

local function read(store, request)
  local fine, message, code = portable(store)
  if not fine then return nil, message, code end
  local word = request.words[1]
  local given = word == "-" and io.read("*l") or word ~= "-" and word
    or not word and os.getenv("DLOCK_HANDLE")
  if given and given ~= "" then return given end
  return results.fail("invalid", "a handle is expected: as a word, on standard"
    .. " input behind -, or in $DLOCK_HANDLE")
end

-- Seconds left of a handle's lock; ttl: its new ttl (true: its own).
local function prolong(store, request, ttl)
  local given, message, code = read(store, request)
  if not given then return nil, message, code end
  return lockable.ask({ client = stores.client(store) }, "prolong",
    text.of_word(given), ttl)
end

function handle.release(store, request)
  local given, message, code = read(store, request)
  if not given then return nil, message, code end
  local lease
  lease, message, code = store:attach(given)
  if not lease then return nil, message, code end
  local done
  done, message, code = lease:release()
  return done and 0, message, code
end

function handle.extend(store, request)
  local left, message, code = prolong(store, request,
    request.options.ttl or true)
  return left and 0, message, code
end

handle["held-by"] = function(store, request)
  local left, message, code = prolong(store, request, false)
  if not left and code ~= "lost" then return nil, message, code end
  if request.options.json then
    out.say(json.encode { held = left ~= nil, remaining = left })
  end
  return left and 0 or 1
end

return handle
