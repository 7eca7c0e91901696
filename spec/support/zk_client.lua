-- A client of one ZooKeeper server that has nothing of dlock's and nothing of
-- the C library's: it opens a session, writes, closes it. So a spec can tell
-- whether the servers commit writes when dlock gets no answer.
--
--   zk_client.write(url, "/", "data", 2) --> true; or nil, message
--   zk_client.start_write(url, path, data, 2, function(ok, message) … end)
--
-- What is sent and what comes back are frames: a length in four bytes, then
-- numbers of four or eight bytes, big end first, and strings after a length.
-- The first frame is the session's, then each request has a number (xid) and a
-- type, each reply the number, a transaction id and an error.

local uv = require "luv"
local loop = require "spec.support.loop"

local zk_client = {}

local SET, CLOSE, ANY_VERSION = 5, -11, -1

local function int(n)
  n = n % 4294967296
  return string.char(math.floor(n / 16777216), math.floor(n / 65536) % 256,
    math.floor(n / 256) % 256, n % 256)
end

local function text(s)
  return int(#s) .. s
end

local function frame(...)
  return text(table.concat { ... })
end

local function read_int(s, at)
  local a, b, c, d = s:byte(at, at + 3)
  local n = ((a * 256 + b) * 256 + c) * 256 + d
  return n < 2147483648 and n or n - 4294967296
end

-- Session 0 is a new one; no transaction was seen; no password.
local function hello(timeout_ms)
  return frame(int(0), int(0), int(0), int(timeout_ms), int(0), int(0),
    text(("\0"):rep(16)))
end

-- All leave at once, as each is answered in its order.
local function requests(path, data, timeout_ms)
  return hello(timeout_ms)
    .. frame(int(1), int(SET), text(path), text(data), int(ANY_VERSION))
    .. frame(int(2), int(CLOSE))
end

-- Takes the next whole frame out of what came.
local function next_frame(state)
  local size = #state.input >= 4 and read_int(state.input, 1)
  if size and #state.input >= 4 + size then
    local one = state.input:sub(5, 4 + size)
    state.input = state.input:sub(5 + size)
    return one
  end
end

-- True when the write was answered; nil to go on; false and why not.
local function look(state)
  for one in next_frame, state do
    if not state.session then
      -- Its timeout is 0 when there is no such session.
      state.session = read_int(one, 5) > 0
      if not state.session then
        return false, "no session"
      end
    else
      local err = read_int(one, 13)
      return err == 0, err ~= 0 and "error " .. err or nil
    end
  end
end

--- Writes data to a node that is there ("/" always is) through the (first)
--- server of url; then calls done(true), or done(nil, message) at the latest
--- after `seconds`. The answer to a write comes after its commit.
function zk_client.start_write(url, path, data, seconds, done)
  local tcp, timer = uv.new_tcp(), uv.new_timer()
  local state = { input = "" }
  local function finish(ok, message)
    if done then
      local call = done
      done = nil
      timer:close()
      tcp:close()
      call(ok or nil, message)
    end
  end
  timer:start(math.ceil(seconds * 1000), 0, function()
    finish(false, state.session and "no answer in time"
      or "no session in time")
  end)
  tcp:connect("127.0.0.1", tonumber(url:match(":(%d+)")), function(err)
    if err or not done then
      return finish(false, err)
    end
    tcp:write(requests(path, data, math.ceil(seconds * 1000)))
    tcp:read_start(function(failed, bytes)
      if not bytes then
        return finish(false, failed or "connection closed")
      end
      state.input = state.input .. bytes
      local ok, message = look(state)
      if ok ~= nil then
        finish(ok, message)
      end
    end)
  end)
end

--- The same, waited for.
function zk_client.write(url, path, data, seconds)
  local result
  zk_client.start_write(url, path, data, seconds, function(ok, message)
    result = { ok, message }
  end)
  loop.wait(seconds + 5, function()
    return result
  end)
  return result[1], result[2]
end

return zk_client
