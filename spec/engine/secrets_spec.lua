-- No secret is shown: everything that sessions print, working ones and failing
-- ones, with the trace on and each event written down, is searched for one.

local certificates = require "spec.support.certificates"
local command = require "spec.support.command"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local server = require "spec.support.server"
local shared = require "spec.support.shared"

local SECRET = "geheimnis"

-- Opens a store with the options given as Lua text, uses it for whatever shows
-- something, and prints all that it gives, errors too.
local SESSION = [[
  local dlock = require "dlock"
  local SECRET = "geheimnis"
  local function show(...)
    for i = 1, select("#", ...) do
      local one = select(i, ...)
      if type(one) == "table" and not getmetatable(one) then
        for k, v in pairs(one) do show(k, v) end
      else
        print(tostring(one))
      end
    end
  end
  local opts = assert((loadstring or load)(
    "local SECRET, path = ...; return " .. arg[1]))(SECRET, arg[2])
  local log = dlock.logger(io.stdout)
  opts.on_event = function(event) show(event); log(event) end
  local patience = tonumber(arg[3])
  opts.io_timeout, opts.connect_timeout = patience, patience
  local store, message, code = dlock.open(opts)
  show(store, message, code)
  if store then
    show(pcall(function() store.password = 1 end))
    show(store:ping())
    local lease, why = store:lock("secrets", { timeout = patience })
    show(lease, why)
    show(store:try_lock("secrets"))
    show(store:inspect("secrets"))
    show(store:list("secrets"))
    show(store:mutex("secrets"):locked())
    show(store:revoke("secrets"))
    show(store:break_lock("secrets"))
    if lease then show(lease:release()) show(lease:extend()) end
    show(store:stats())
    show(store:stats("prometheus"))
    show(store:close())
  end
  show(pcall(dlock.open, { url = opts.url, pasword = SECRET }))
  show(pcall(dlock.open, { url = opts.url, ttl = SECRET }))
  show(pcall(dlock.open, { url = opts.url, tls = { key_pasword = SECRET } }))
  print "end"
]]

describe("what sessions print has no secret in it,", function()
  local dir, path

  setup(function()
    dir = server.new_dir()
    path = dir .. "/password"
    server.write_file(path, SECRET .. "\n")
  end)

  teardown(function() server.remove_dir(dir) end)

  -- patience: for how long each call waits for the server.
  local function printed(opts, patience)
    local status, out, err = process.run {
      script = SESSION, args = { opts, path, patience or 5 },
      stderr = "pipe", timeout = 100,
      env = { DLOCK_TRACE = "1" },
    }
    assert.are.equal(0, status, err)
    assert.is_truthy(out:find("\nend\n", 1, true), out .. err)
    local text = out .. err
    assert.is_nil(text:find(SECRET, 1, true), text)
    assert.is_nil(text:find(SECRET:upper(), 1, true))
    return text
  end

  local function url(variable, user)
    return ("%q"):format(
      (shared.at(variable):gsub("//", "//" .. (user or ""))))
  end

  it("on Redis", function()
    local redis = require "spec.support.redis"
    local admin = assert(redis.connect())
    admin:call("ACL", "SETUSER", "shy", "on", ">" .. SECRET, "~*", "&*",
      "+@all")
    finally(function()
      admin:call("ACL", "DELUSER", "shy")
      admin:close()
    end)
    local where = url "DLOCK_TEST_REDIS"
    for _, opts in ipairs {
      "{ url = " .. url("DLOCK_TEST_REDIS", "shy:" .. SECRET .. "@") .. " }",
      "{ url = " .. url("DLOCK_TEST_REDISS", "shy:" .. SECRET .. "@") .. " }",
      "{ username = 'shy', password = SECRET, url = " .. where .. " }",
      "{ username = 'shy', password_file = path, url = " .. where .. " }",
      "{ username = 'shy', password = function() return SECRET end, url = "
        .. where .. " }",
    } do
      local text = printed(opts)
      assert.is_truthy(text:find("redis grant 'secrets'", 1, true), text)
      text = printed((opts:gsub("shy", "nobody")))
      assert.is_truthy(text:find("denied: ", 1, true), text)
    end
  end)

  it("on ZooKeeper, with what is and is not ours", function()
    local where = url("DLOCK_TEST_ZOOKEEPER"):gsub('"$', "/shy%0")
    for _, user in ipairs { "ann", "bob" } do
      local text = printed("{ username = '" .. user .. "', password = SECRET,"
        .. " acl = 'creator', url = " .. where .. " }")
      assert.is_truthy(text:find(user == "ann" and "zookeeper grant"
        or "denied: ", 1, true), text)
    end
  end)

  it("on Sentinels that want none", function()
    local text = printed("{ sentinel_username = 'shy', sentinel_password ="
      .. " SECRET, url = " .. url("DLOCK_TEST_SENTINEL") .. " }")
    assert.is_truthy(text:find("denied: ", 1, true), text)
  end)

  it("with URLs and options that cannot be used", function()
    for _, opts in ipairs {
      "{ url = 'redis://shy:' .. SECRET .. '@' }",
      "{ url = 'redis://shy:' .. SECRET .. '%zz@h' }",
      "{ url = 'redis://shy:' .. SECRET .. '@h:99999999' }",
      "{ url = 'redis://shy:' .. SECRET .. '@h/x?y' }",
      "{ url = 'nosuch://shy:' .. SECRET .. '@h' }",
      "{ url = 'shy:' .. SECRET .. '@h' }",
      "{ url = 'file:///tmp/x', password = SECRET }",
      "{ url = 'redis://127.0.0.1:1', password = SECRET .. '\\n' }",
      "{ url = 'redis://127.0.0.1:1', password = SECRET }",
      "{ url = 'redis://127.0.0.1:1', password = function()"
        .. " return { SECRET } end }",
      "{ url = 'zookeeper://127.0.0.1:1', username = 'shy',"
        .. " password = SECRET }",
    } do
      printed(opts, 0.5) -- nobody answers
    end
  end)

  it("with a key that another secret opens", function()
    local made = certificates.make(dir)
    local text = printed(("{ tls = { cert = %q, key = %q, key_password ="
      .. " SECRET }, url = %s }"):format(made:path "client.crt",
        made:path "locked.key", url("DLOCK_TEST_REDISS")))
    assert.is_truthy(text:find("invalid: ", 1, true), text)
  end)

  it("and neither has the command's argument list", function()
    local at = assert(os.getenv("DLOCK_TEST_REDIS"))
    local between = proxy.start(at)
    between:hold "down" -- so that it does not end before it is looked at
    local p = command.spawn("run", "--url", between.url, "--password-file",
      path, command.key(), "--", "cat")
    local list = server.read_file("/proc/" .. p.pid .. "/cmdline")
    assert.is_truthy(list:find(path, 1, true), list)
    assert.is_nil(list:find(SECRET, 1, true))
    between:release()
    assert.are.equal(77, p:wait()) -- the default user has no such password
    assert.is_nil((p.out .. p.err):find(SECRET, 1, true))
    between:stop()
  end)
end)
