-- Names on Redis: every part of a lock is in the hash slot of the lock's name,
-- whatever the name, and no part of one lock is another lock.

local dlock = require "dlock"
local process = require "spec.support.process"
local redis = require "spec.support.redis"
local server = require "spec.support.server"

local NAMES = 100000
local AWKWARD = {
  "}{", "{}", "a}b", "x:q", "{", "}", "{a}", "{a}{b}", "{}{b}", "{{a}}", "a{b",
  "\0", "{\0}", "~dlock", "~dloc{k:", "\n", "{a", "a}{b}", ("x"):rep(512),
}

local function bit_xor(a, b)
  local result, place = 0, 1
  while a > 0 or b > 0 do
    local x, y = a % 2, b % 2
    if x ~= y then result = result + place end
    a, b, place = (a - x) / 2, (b - y) / 2, place * 2
  end
  return result
end

-- CRC16 byte by byte by table, for Luas without bit operators:
-- crc' = (crc << 8) ^ table[(crc >> 8) ^ byte].
local function make_crc16()
  local xor = {}
  for a = 0, 255 do
    xor[a] = {}
    for b = 0, 255 do xor[a][b] = bit_xor(a, b) end
  end
  local high, low = {}, {}
  for byte = 0, 255 do
    local crc = byte * 256
    for _ = 1, 8 do
      local carry = crc >= 32768
      crc = crc * 2 % 65536
      if carry then crc = bit_xor(crc, 0x1021) end
    end
    high[byte], low[byte] = math.floor(crc / 256), crc % 256
  end
  return function(text)
    local h, l = 0, 0
    for i = 1, #text do
      local at = xor[h][text:byte(i)]
      h, l = xor[l][high[at]], low[at]
    end
    return h * 256 + l
  end
end

local crc16 = make_crc16()

local function slot(key)
  local open = key:find("{", 1, true)
  local close = open and key:find("}", open + 1, true)
  if close and close > open + 1 then
    key = key:sub(open + 1, close - 1)
  end
  return crc16(key) % 16384
end

local HEX, BYTE = {}, {}
for byte = 0, 255 do
  local char = string.char(byte)
  HEX[char] = ("%02x"):format(byte)
  BYTE[HEX[char]] = char
end

local function hex(text)
  return (text:gsub(".", HEX))
end

local function unhex(text)
  return (text:gsub("%x%x", BYTE))
end

-- Names full of what is special in hash tags.
local function random_name()
  local letters = "{}{}ab:q~\0"
  local name = {}
  for i = 1, math.random(1, 24) do
    local at = math.random(1, #letters)
    name[i] = math.random() < 0.7 and letters:sub(at, at)
      or string.char(math.random(0, 255))
  end
  return table.concat(name)
end

describe("redis names:", function()
  local dir

  setup(function() dir = server.new_dir() end)
  teardown(function() server.remove_dir(dir) end)

  local function fence_names(names)
    local tool, list = dir .. "/names", dir .. "/list"
    assert.are.equal(0, (process.run { command = {
      "cc", "-std=c11", "-O1", "-Icsrc", "-o", tool, "spec/c/redis_names.c",
      "csrc/store/redis/wire/names.c" } }))
    local lines = {}
    for i, name in ipairs(names) do lines[i] = hex(name) end
    server.write_file(list, table.concat(lines, "\n") .. "\n")
    local out = io.popen(("'%s' <'%s'"):format(tool, list))
    local result = {}
    for line in out:lines() do result[#result + 1] = line end
    out:close()
    return result
  end

  it("this file's slot is the server's", function()
    local private = redis.start { cluster_enabled = "yes" }
    local r = private:connect()
    for i = 1, 500 do
      local name = AWKWARD[i] or random_name()
      assert.are.equal(r:call("CLUSTER", "KEYSLOT", name), slot(name))
    end
    r:close()
    private:stop()
  end)

  it("10^5 names: all parts in one slot, none reserved by chance", function()
    math.randomseed(os.time())
    local names, seen = {}, {}
    for i = 1, NAMES do names[i] = AWKWARD[i] or random_name() end
    local fences = fence_names(names)
    assert.are.equal(NAMES, #fences)
    for i, name in ipairs(names) do
      if name:sub(1, 7) == "~dlock:" then
        assert.are.equal("reserved", fences[i])
      else
        local fence = unhex(fences[i])
        local tag = fence:match("^~dlock:{(%d%d%d%d%d%d)}:f:")
        if not tag or slot(fence) ~= slot(name)
          or fence:sub(19) ~= name or (seen[fence] or name) ~= name then
          error(("%q gives %q"):format(name, fence))
        end
        seen[fence] = name
      end
    end
  end)

  it("every slot has a tag", function()
    -- One name for each of the 16,384 slots.
    local by_slot, names, left = {}, {}, 16384
    local i = 0
    while left > 0 do
      i = i + 1
      local s = slot("k" .. i)
      if not by_slot[s] then
        by_slot[s], left = true, left - 1
        names[#names + 1] = "k" .. i
      end
    end
    for n, fence in ipairs(fence_names(names)) do
      if slot(unhex(fence)) ~= slot(names[n]) then error(names[n]) end
    end
  end)

  it("names beginning with ~dlock: are invalid, prefixes too", function()
    local url = os.getenv("DLOCK_TEST_REDIS")
    local store = assert(dlock.open { url = url, prefix = "" })
    local got, message, code = store:try_lock("~dlock:{000000}:q:x")
    assert.is_nil(got)
    assert.are.equal("invalid", code)
    assert.is_truthy(message:find("~dlock:", 1, true))
    store:close()
    store = assert(dlock.open { url = url, prefix = "~dl" })
    assert.are.equal("invalid", select(3, store:try_lock("ock:x")))
    store:close()
    got, message, code = dlock.open { url = url, prefix = "~dlock:x" }
    assert.is_nil(got)
    assert.are.equal("invalid", code)
    assert.is_truthy(message:find("begin with ~dlock: .* another prefix$"))
  end)

  it("a tag puts a name into the slot of a lock", function()
    for _, prefix in ipairs { "dlock:", "shop:", "", "{a}", "}{" } do
      local store = assert(dlock.open { url = "redis://unused",
        prefix = prefix ~= "dlock:" and prefix or nil })
      for _, key in ipairs { "orders:42", "{b}:x", "}{", "\0\255" } do
        local tag = assert(store:tag(key))
        assert.matches("^{[0-7]+}$", tag)
        assert.equal(slot(prefix .. key), slot("mine:" .. tag .. ":x"))
      end
      assert(store:close())
    end
    local store = assert(dlock.open("file:///unused"))
    local got, message, code = store:tag("k")
    assert.same({ nil, "unsupported" }, { got, code })
    assert.matches("^unsupported: ", message)
    assert(store:close())
  end)

  it("a lock called as another one's part is a lock of its own", function()
    local url = os.getenv("DLOCK_TEST_REDIS")
    local store = assert(dlock.open(url))
    local held = {}
    for _, key in ipairs { "n", "n:q", "{n}", "{n}:q", "n:f", "}{", "{}" } do
      held[#held + 1] = assert(store:try_lock(key))
    end
    for _, lease in ipairs(held) do assert(lease:release()) end
    store:close()
  end)
end)

describe("names of a lock", function()
  it("are the same whatever was locked before", function()
    local one = redis.start()
    local admin = one:connect()
    local a, b = assert(dlock.open(one.url)), assert(dlock.open(one.url))
    for _, key in ipairs { "key-1", "key-2", "key-3" } do
      assert(assert(a:try_lock(key)):release())
    end
    assert(assert(b:try_lock("key-3")):release())
    assert.are.equal(1, #admin:call("KEYS", "~dlock:{*}:f:*key-3"))
    a:close()
    b:close()
    admin:close()
    one:stop()
  end)
end)
