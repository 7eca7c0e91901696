-- A client of one ZooKeeper server that has nothing of dlock's and nothing of
-- the C library's: it opens a session, writes, closes it. So a spec can tell
-- whether the servers commit writes when dlock gets no answer.
--
--   zk_client.write(url, "/", "data", 2) --> true; or nil, message
--   zk_client.start_write(url, path, data, 2, function(ok, message) … end)
--   zk_client.create(url, "/app", "digest:app:hash:cd", 2)  --> the same
--   zk_client.acl(url, "/app", 2)  --> "digest:app:hash:cd", …
--
-- What is sent and what comes back are frames: a length in four bytes, then
-- numbers of four or eight bytes, big end first, and strings after a length.
-- The first frame is the session's, then each request has a number (xid) and a
-- type, each reply the number, a transaction id and an error.

local uv = require "luv"
local loop = require "spec.support.loop"

local zk_client = {}

local CREATE, SET, GET_ACL, CLOSE, ANY_VERSION = 1, 5, 6, -11, -1
local RIGHTS = { r = 1, w = 2, c = 4, d = 8, a = 16 }

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
local function requests(request, timeout_ms)
  return hello(timeout_ms) .. request .. frame(int(2), int(CLOSE))
end

local function set(path, data)
  return frame(int(1), int(SET), text(path), text(data), int(ANY_VERSION))
end

-- acl: as zkCli takes it, "scheme:id:rights", the id with or without a colon.
local function create(path, acl)
  local scheme, id, letters = acl:match("^(%a+):(.*):(%a+)$")
  local rights = 0
  for letter in letters:gmatch("%a") do rights = rights + RIGHTS[letter] end
  return frame(int(1), int(CREATE), text(path), text(""), int(1), int(rights),
    text(scheme), text(id), int(0))
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
      state.answer = one:sub(17)
      return err == 0, err ~= 0 and "error " .. err or nil
    end
  end
end

-- Has the (first) server of url answer a request; then calls done(true, what
-- it said), or done(nil, message) at the latest after `seconds`.
local function start(url, request, seconds, done)
  local tcp, timer = uv.new_tcp(), uv.new_timer()
  local state = { input = "" }
  local function finish(ok, message)
    if done then
      local call = done
      done = nil
      timer:close()
      tcp:close()
      call(ok or nil, ok and state.answer or message)
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
    tcp:write(requests(request, math.ceil(seconds * 1000)))
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

local function answer(url, request, seconds)
  local result
  start(url, request, seconds, function(ok, message)
    result = { ok, message }
  end)
  loop.wait(seconds + 5, function()
    return result
  end)
  return result[1], result[2]
end

--- Writes data to a node that is there ("/" always is) through the (first)
--- server of url; then calls done(true), or done(nil, message) at the latest
--- after `seconds`. The answer to a write comes after its commit.
function zk_client.start_write(url, path, data, seconds, done)
  start(url, set(path, data), seconds, done)
end

--- The same, waited for.
function zk_client.write(url, path, data, seconds)
  return answer(url, set(path, data), seconds)
end

--- Makes a node, with the ACL of one user, as zkCli takes it.
function zk_client.create(url, path, acl, seconds)
  return answer(url, create(path, acl), seconds)
end

--- Who has which rights at a node: "scheme:id:rights", each as zkCli shows it;
--- nil, message.
function zk_client.acl(url, path, seconds)
  local ok, said = answer(url, frame(int(1), int(GET_ACL), text(path)),
    seconds)
  if not ok then
    return nil, said
  end
  local found, at = {}, 5
  for i = 1, read_int(said, 1) do
    local bits, parts = read_int(said, at), {}
    at = at + 4
    for part = 1, 2 do
      local size = read_int(said, at)
      parts[part], at = said:sub(at + 4, at + 3 + size), at + 4 + size
    end
    local letters = ("cdrwa"):gsub("%a", function(letter)
      return math.floor(bits / RIGHTS[letter]) % 2 == 0 and "" or nil
    end)
    found[i] = table.concat(parts, ":") .. ":" .. letters
  end
  return (table.unpack or unpack)(found)
end

return zk_client
