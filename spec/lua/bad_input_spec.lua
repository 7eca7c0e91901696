-- What people get wrong, and servers that are not what the URL says: a code and
-- a message that says what to do, in bounded time.

local core = require "dlock.core"
local dlock = require "dlock"
local process = require "spec.support.process"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local uv = require "luv"

-- A server in a process of its own: says `greeting` to a client that sends data
-- ("" for nothing) and keeps the connection.
local LISTEN = [[
  local uv = require "luv"
  local tcp, greeting = uv.new_tcp(), arg[1]
  tcp:bind("127.0.0.1", 0)
  tcp:listen(16, function()
    local client = uv.new_tcp()
    tcp:accept(client)
    client:read_start(function(_, data)
      if data and greeting ~= "" then client:write(greeting) end
    end)
  end)
  print(tcp:getsockname().port)
  uv.run()
]]

local function listen(greeting)
  local p = process.spawn { script = LISTEN, args = { greeting } }
  return assert(p:read_line())
end

-- Every call on the store gives this code within `bound` seconds, and says
-- something that matches each pattern.
local function gives(opts, code, bound, ...)
  opts.connect_timeout = opts.connect_timeout or 0.5
  opts.io_timeout = opts.io_timeout or 0.5
  local store = assert(dlock.open(opts))
  for _, call in ipairs {
    function() return store:ping() end,
    function() return store:try_lock("bad input") end,
    function() return store:lock("bad input", { timeout = 0.5 }) end,
  } do
    local start = uv.hrtime()
    local got, message, found = call()
    local took = (uv.hrtime() - start) / 1e9
    assert.is_nil(got)
    assert.are.equal(code, found, message)
    assert.is_truthy(message:find("^" .. code .. ": "), message)
    for _, pattern in ipairs { ... } do
      assert.is_truthy(message:find(pattern), message)
    end
    assert.is_true(took < bound, took)
  end
  store:close()
end

describe("bad input:", function()
  after_each(process.close_all)

  describe("open", function()
    it("says what is wrong with a URL", function()
      for _, url in ipairs { "", "localhost", "http://h", "redis://h:x",
        "zookeeper://", "file://dir", "redis://a,b" } do
        for _, arg in ipairs { url, { url = url } } do
          local store, message, code = dlock.open(arg)
          assert.is_nil(store)
          assert.are.equal("invalid", code)
          assert.is_truthy(message:find("^invalid: "))
        end
      end
    end)

    it("raises for what is no URL and no option", function()
      for _, arg in ipairs { 5, true, print, { ulr = "x" }, { url = 5 },
        { ttl = "x" }, { "redis://h" } } do
        assert.has_error(function() dlock.open(arg) end)
      end
    end)

    it("raises for options beside the URL instead of in one table with it",
      function()
        local ok, problem = pcall(dlock.open, "redis://h", { ttl = 5 })
        assert.is_false(ok)
        assert.is_truthy(problem:find("url = ", 1, true), problem)
        assert(dlock.open("redis://h", nil))
        assert(dlock.open(("redis://x"):gsub("x", "h"))) -- two results
      end)

    it("shows how to call it, and which values url takes", function()
      local function says(text, ...)
        local ok, got, message = pcall(...)
        message = ok and message or got
        assert.is_truthy(message:find(text, 1, true), message)
      end
      for _, call in ipairs { "open", "canceller", "all" } do
        says("call it with a dot, as in dlock." .. call .. "(", dlock[call],
          dlock, "redis://h")
      end
      says("{ url = ", dlock.open, { "redis://h" })
      says("is stands in url", dlock.open, { host = "127.0.0.1" })
      says("is stands in url", dlock.open, { port = 6379 })
      says("is stands in url", dlock.open, { uri = "redis://h" })
    end)

    it("names no URL that it then cannot open", function()
      for _, url in ipairs { "localhost", "http://h", "redis://a,b",
        "redis+sentinel://h", "redlock://a,b" } do
        local message = select(2, dlock.open(url)):gsub("'[^']*'", "")
        for scheme in message:gmatch("(%a[%w+.-]*)://") do
          assert.is_truthy(dlock.open(({
            ["redis+unix"] = "redis+unix:///s", file = "file:///d",
            redis = "redis://h", zookeeper = "zookeeper://h",
            ["redis+sentinel"] = "redis+sentinel://h/m",
            redlock = "redlock://a,b,c",
            memory = "memory://", mysql = "mysql://h/d",
            postgres = "postgres://h/d",
          })[scheme] or scheme .. "://h"), message)
        end
      end
    end)

    it("says what cannot be done here", function()
      assert.are.equal("unsupported", select(3, dlock.open("zookeepers://h")))
      local store, message, code = dlock.open {
        url = "redis://h", host = "resty", -- we are not in nginx
      }
      assert.is_nil(store)
      assert.are.equal("unsupported", code)
      assert.is_truthy(message:find("'auto'", 1, true), message)
    end)

    it("knows no option of a store that is not there", function()
      assert.has_error(function()
        dlock.open { url = "redis://h", nodes = 1 }
      end)
    end)

    it("takes three to nine servers for a Redlock, each once", function()
      for _, hosts in ipairs { "a,b", "a,b,c,d,e,f,g,h,i,j", "a,b,a",
          "a:1,b,a:1" } do
        local message, code = select(2, dlock.open("redlock://" .. hosts))
        assert.are.equal("invalid", code, message)
      end
      local code = select(3, dlock.open { url = "redis://h", max_ttl = 5 })
      assert.are.equal("invalid", code)
      assert(dlock.open { url = "redlock://a:1,a:2,a/3", max_ttl = 5 })
    end)

    it("takes the database of a socket as an option", function()
      local store = assert(dlock.open { url = "redis+unix:///s", db = 3 })
      assert.are.equal("dlock.store: redis+unix:///s (db 3)", tostring(store))
      for _, url in ipairs { "redis://h/0", "redis+sentinel://h/m",
          "zookeeper://h", "file:///tmp/x" } do
        local none, message, code = dlock.open { url = url, db = 3 }
        assert.is_nil(none)
        assert.are.equal("invalid", code)
        assert.is_truthy(message:find("'db'", 1, true), message)
        assert.are.equal(url:find("^redis") ~= nil,
          message:find("redis://host:6379/0", 1, true) ~= nil, message)
      end
    end)

    it("checks values, and shows no secret", function()
      local store, message, code = dlock.open {
        url = "redis://:hush@h", ttl = -1,
      }
      assert.is_nil(store)
      assert.are.equal("invalid", code)
      assert.is_nil(message:find("hush", 1, true))
      store = assert(dlock.open("redis://me:hush@127.0.0.1:1/0"))
      assert.are.equal("dlock.store: redis://127.0.0.1:1/0", tostring(store))
      local _, other = store:ping()
      assert.is_nil(other:find("hush", 1, true))
    end)

    it("reads password_file, and says when it cannot", function()
      local store, message, code = dlock.open {
        url = "redis://h", password_file = "/nonexistent/secret",
      }
      assert.is_nil(store)
      assert.are.equal("invalid", code)
      assert.is_truthy(message:find("/nonexistent/secret", 1, true))
    end)

    it("reads of password_file no more than a password may have", function()
      for path, why in pairs { ["/dev/zero"] = "4096",
          ["/dev/null"] = "empty", ["/"] = "directory" } do
        local store, message, code = dlock.open {
          url = "redis://h", password_file = path,
        }
        assert.is_nil(store)
        assert.are.equal("invalid", code)
        assert.is_truthy(message:find(why, 1, true), message)
      end
    end)
  end)

  describe("a password file", function()
    local path

    before_each(function() path = server.new_dir() .. "/secret" end)
    after_each(function() server.remove_dir((path:gsub("/secret$", ""))) end)

    local function opens(option, content)
      server.write_file(path, content)
      return dlock.open { url = option == "password_file" and "redis://h"
        or "redis+sentinel://h/m", [option] = path }
    end

    it("that no password can be in is refused by its name alone", function()
      for content, why in pairs { ["\nhush"] = "empty", ["\r\nhush"] = "empty",
          ["hush\0\n"] = "NUL", ["\0hush"] = "NUL", ["hu\0sh\nx"] = "NUL",
          ["\0"] = "NUL", [""] = "empty" } do
        for _, option in ipairs { "password_file", "sentinel_password_file" } do
          local store, message, code = opens(option, content)
          assert.is_nil(store)
          assert.equal("invalid", code)
          assert.matches("^invalid: " .. option .. " '", message)
          for _, text in ipairs { path, why } do
            assert.is_truthy(message:find(text, 1, true), message)
          end
          local others = message:gsub(path:gsub("%p", "%%%0"), "")
          assert.is_nil(others:find("hu", 1, true), message)
        end
      end
    end)

    -- The same rule at open and at each connect; tls_refusals_spec has it too.
    it("has a line of up to 4096 bytes, without its line end", function()
      local longest = ("x"):rep(4096)
      for content, line in pairs { ["a"] = "a", ["a\n"] = "a", ["a\r\n"] = "a",
          ["a\r"] = "a\r", ["a\rb\n"] = "a\rb", ["a\r\r\n"] = "a\r",
          ["a\nb"] = "a", ["\r"] = "\r", [" a\t\r\nb\n"] = " a\t",
          [longest] = longest, [longest .. "\n"] = longest,
          [longest .. "\r\n"] = longest } do
        assert(assert(opens("password_file", content)):close())
        assert.equal(line, core.password_file(path, 0))
      end
      for _, content in ipairs { longest .. "\r", longest .. "x\n" } do
        assert.matches("more than 4096 bytes",
          (select(2, opens("password_file", content))))
      end
    end)

    -- In a process of its own, as one that waits for a writer waits for ever.
    it("that is a pipe is waited for, but not for ever", function()
      assert(os.execute("mkfifo " .. path))
      local script = [[
        local message = select(2, require("dlock").open { url = "redis://h",
          password_file = arg[1], connect_timeout = 0.1 })
        io.write(message) ]]
      local _, out = process.run { script = script, args = { path },
        timeout = 10 }
      assert.matches("^invalid: password_file .*nothing came in time", out)
      local writer = process.spawn { args = { path }, tested = false,
        script = [[
          local file = assert(io.open(arg[1], "wb"))
          file:setvbuf "no"
          for _, part in ipairs { "hu", "sh\nmore" } do file:write(part) end
          io.read() -- it stays open ]] }
      assert.equal("hush", core.password_file(path, 20))
      writer:write "\n"
      assert.equal(0, writer:wait())
    end)

    it("has it in its first line, whatever follows there", function()
      for _, content in ipairs { "hush", "hush\n", "hush\r\n", "hush\n\0\n",
          "\thush \n\n", "\r" } do
        for _, option in ipairs { "password_file", "sentinel_password_file" } do
          assert(assert(opens(option, content)):close())
        end
      end
    end)
  end)

  describe("a method that is not called on its object", function()
    local dir, store

    before_each(function()
      dir = server.new_dir()
      store = assert(dlock.open("file://" .. dir .. "/locks"))
    end)
    after_each(function()
      store:close()
      server.remove_dir(dir)
    end)

    local line

    local function call(fn, ...)
      line = debug.getinfo(1, "l").currentline + 1
      local result = fn(...)
      return result
    end

    -- fn(...) raises, at the line of the call, a word on how to call it.
    local function wants_colon(name, fn, ...)
      local ok, problem = pcall(call, fn, ...)
      assert.is_false(ok, name)
      assert.is_truthy(tostring(problem):find(("bad_input_spec.lua:%d: call it"
        .. " with a colon, as in %s("):format(line, name), 1, true),
        name .. ": " .. tostring(problem))
    end

    local function methods_of(object)
      local index = debug.getmetatable(object).__index
      if type(index) == "table" then
        return index
      end
      local found = {}
      for name in pairs(core.lease_methods) do found[name] = object[name] end
      return found
    end

    it("says so at the caller's line", function()
      local rw, mutex = assert(store:rwlock("k")), assert(store:mutex("k"))
      local lease = assert(store:lock("k"))
      local all = assert(dlock.all { store:mutex("a") }:acquire())
      local others = { false, 5, true, "k", print, {}, { timeout = 1 },
        dlock.canceller(), store, lease, io.stdout }
      -- What messages call an object; the methods of all lockables are named
      -- by the most common one.
      for object, called in pairs {
        [store] = "store", [rw] = "rwlock", [dlock.canceller()] = "canceller",
        [lease] = "lease", [all] = "lease", [mutex] = "mutex",
        [rw:read()] = "mutex", [store:semaphore("k", 2)] = "semaphore",
        [store:barrier("k", 2)] = "barrier", [store:latch("k", 2)] = "latch",
        [store:election("k")] = "election", [dlock.all { mutex }] = "mutex",
      } do
        local meta = debug.getmetatable(object)
        for name, fn in pairs(methods_of(object)) do
          local general = (called == "election" or called == "semaphore")
            and mutex[name]
          local shown = (general and "mutex" or called) .. ":" .. name
          wants_colon(shown, fn)
          for _, other in ipairs(others) do
            if debug.getmetatable(other) ~= meta then
              wants_colon(shown, fn, other)
            end
          end
        end
      end
      all:release()
      assert.is_true(lease:release())
    end)
  end)

  describe("ttl", function()
    it("out of range is invalid, and acquires nothing", function()
      local store = assert(dlock.open("redis://127.0.0.1:1"))
      for _, ttl in ipairs { 0, -1, 0 / 0, 1e300, math.huge, 0.05 } do
        local got, message, code = store:lock("k", { ttl = ttl })
        assert.is_nil(got)
        assert.are.equal("invalid", code)
        assert.is_truthy(message:find("ttl", 1, true))
      end
    end)
  end)

  describe("a port without a listener", function()
    it("is unavailable", function()
      local port = server.free_port()
      gives({ url = "redis://127.0.0.1:" .. port }, "unavailable", 3,
        tostring(port))
      gives({ url = "zookeeper://127.0.0.1:" .. port }, "unavailable", 3,
        tostring(port))
    end)

    it("is unavailable by name too", function()
      gives({ url = "redis://no-such-host.invalid:6379" }, "unavailable", 6,
        "no%-such%-host")
    end)
  end)

  describe("a server that accepts and never answers", function()
    it("is unavailable", function()
      local port = listen("")
      gives({ url = "redis://127.0.0.1:" .. port }, "unavailable", 3, port)
      gives({ url = "zookeeper://127.0.0.1:" .. port }, "unavailable", 3,
        port)
    end)

    it("is said of the key of a detached lease, without its secret", function()
      local store = assert(dlock.open(os.getenv("DLOCK_TEST_REDIS")))
      local other = assert(dlock.open {
        url = "redis://127.0.0.1:" .. listen(""), io_timeout = 0.3,
      })
      local lease = assert(store:lock("detached key", { ttl = 10 }))
      local text = assert(lease:detach())
      local got, message, code = other:attach(text)
      assert.is_nil(got)
      assert.are.equal("unavailable", code)
      assert.is_truthy(message:find("'detached key'", 1, true), message)
      assert(assert(store:attach(text)):release())
      store:close()
      other:close()
    end)
  end)

  describe("a server of another kind", function()
    it("is not taken for the store", function()
      local port = listen("HTTP/1.1 400 Bad Request\r\n\r\n")
      gives({ url = "redis://127.0.0.1:" .. port }, "invalid", 3, port,
        "not a Redis server")
      gives({ url = "zookeeper://127.0.0.1:" .. port }, "unavailable", 3,
        port)
    end)
  end)

  describe("Redis", function()
    it("with a password that is wrong or missing denies", function()
      local one = redis.start { requirepass = "hush-right" }
      for _, url in ipairs { one.url,
        (one.url:gsub("://", "://:hush-wrong@")),
        (one.url:gsub("://", "://nobody:hush-right@")) } do
        gives({ url = url }, "denied", 3, tostring(one.port))
        local store = assert(dlock.open(url))
        local _, message = store:ping()
        assert.is_nil(message:find("hush", 1, true), message)
        store:close()
      end
      for _, opts in ipairs {
        { url = one.url:gsub("://", "://:hush%%2dright@") .. "" },
        { url = one.url, password = "hush-right" },
        { url = one.url, username = "default", password = "hush-right" },
      } do
        local store = assert(dlock.open(opts))
        assert(assert(store:lock("k")):release())
        store:close()
      end
      local path = one.dir .. "/secret"
      server.write_file(path, "hush-right\n")
      local store = assert(dlock.open { url = one.url, password_file = path })
      assert(store:ping())
      store:close()
      one:stop()
    end)
  end)

  describe("the file store", function()
    it("refuses a directory of somebody else", function()
      local dir = server.new_dir()
      assert(uv.fs_mkdir(dir .. "/locks", 448))
      if uv.getuid() == 0 then
        assert(uv.fs_chown(dir .. "/locks", 65534, 65534))
        gives({ url = "file://" .. dir .. "/locks" }, "denied", 2, "/locks")
        assert(uv.fs_chown(dir .. "/locks", 0, 0))
      end
      assert(uv.fs_chmod(dir .. "/locks", 511)) -- 0777
      gives({ url = "file://" .. dir .. "/locks" }, "denied", 2, "/locks")
      server.remove_dir(dir)
    end)

    it("says when the directory cannot be made", function()
      local dir = server.new_dir()
      server.write_file(dir .. "/file", "")
      local store = assert(dlock.open("file://" .. dir .. "/file/locks"))
      local got, message, code = store:try_lock("k")
      assert.is_nil(got)
      assert.is_true(code == "unavailable" or code == "denied"
        or code == "invalid", code)
      assert.is_truthy(message:find(dir, 1, true), message)
      store:close()
      server.remove_dir(dir)
    end)
  end)
end)
