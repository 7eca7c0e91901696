-- What the threads of threads_spec do, each in a Lua state of its own with a
-- store of its own. thread.start is the spec's end; everything else runs in
-- the new thread and says how it went in a file, because an error there has
-- nowhere else to go.
local files = require "spec.support.files"
local meanwhile = require "spec.support.meanwhile"
local uv = require "luv"

local thread = { parts = {} }

local parts, read = thread.parts, files.read

local function open(url)
  return assert(require("dlock").open { url = url })
end

-- Adds 1 to the number in the file, which nothing but the lock protects; each
-- fence has to be larger than the one before.
local function write_next(path, fence, seconds)
  local file = assert(io.open(path, "r+"))
  local number, last = file:read("*n", "*n")
  assert(fence > last, "a fence did not rise")
  uv.sleep(seconds * 1000)
  file:seek("set")
  file:write(("%012d %016d\n"):format(number + 1, fence))
  assert(file:close())
end

-- (A wait as short as these may end before the server said anything.)
local function expect(wanted, lease, message, code)
  assert(lease or code == wanted or code == "unavailable", message)
  return lease
end

-- Waits that come to nothing, most of the time, one of each kind.
local function in_vain(store, key, turn)
  if turn % 3 == 0 then
    return expect("busy", store:try_lock(key))
  elseif turn % 3 == 1 then
    return expect("timeout", store:lock(key, { timeout = 0.002 }))
  end
  local mutex = assert(store:mutex(key))
  return expect("cancelled", meanwhile.act(0.002, function()
    mutex:cancel()
  end, function()
    return mutex:acquire { timeout = 60 }
  end))
end

--- Fights for the key. One turn of one of them is longer than the ttl, so
--- renewal has to keep it. Ends with a lease held; every other one closes its
--- store.
function parts.rival(url, key, path, turns, number)
  local store = open(url)
  for turn = 1, turns do
    local long = turn == turns and number == 1
    local lease = not long and in_vain(store, key, turn)
      or assert(store:lock(key, { ttl = long and 1.5 or 20, timeout = 60 }))
    write_next(path, lease.fence, long and 1.7 or 0)
    assert(lease:held())
    assert(lease:release())
  end
  assert(store:lock(key .. "-" .. number)) -- left to the end of the store
  if number % 2 == 0 then
    assert(store:close(5))
  end
end

--- Opens and ends stores as fast as it can. A close has leases to release; a
--- store that is collected has none, since its leases would last for their ttl.
function parts.opener(url, key, path, turns, number)
  assert(path)
  for turn = 1, turns do
    local store = open(url)
    local lease = assert(store:lock(("%s-%d"):format(key, number)))
    local closes = turn % 2 == 0
    if not closes or turn % 3 ~= 0 then
      assert(lease:release())
    end
    if closes then
      assert(store:close(5))
    else
      store, lease = nil, nil -- luacheck: ignore
      collectgarbage()
      collectgarbage()
    end
  end
end

local function main(path, cpath, text)
  package.path, package.cpath = path, cpath
  local name, out, url, key, file, turns, number =
    text:match("^(.-)\n(.-)\n(.-)\n(.-)\n(.-)\n(.-)\n(.*)$")
  local part = require("spec.contract.thread").parts[name]
  local ok, problem = xpcall(function()
    part(url, key, file, tonumber(turns), tonumber(number))
  end, debug.traceback)
  local result = assert(io.open(out, "w"))
  result:write(ok and "ok" or tostring(problem))
  result:close()
end

--- Starts a thread that plays a part. finish() joins it and returns "ok", or
--- what went wrong.
function thread.start(name, out, ...)
  -- (As one string: luv takes few arguments and does not say when it is more.)
  local handle = assert(uv.new_thread(main, package.path, package.cpath,
    table.concat({ name, out, ... }, "\n")))
  return {
    finish = function()
      assert(uv.thread_join(handle))
      return (read(out)) or "it died"
    end,
  }
end

return thread
