local url = require "dlock.url"

local function parse(s)
  local parts, message, code = url.parse(s)
  assert(parts, message)
  assert.is_nil(code)
  return parts
end

local function refused(s, code)
  local parts, message, got = url.parse(s)
  assert.is_nil(parts)
  assert.are.equal(code or "invalid", got)
  assert.are.equal(code or "invalid", message:match("^(%w+): "))
  return message
end

describe("the URL of a store", function()
  it("gives host, port and database", function()
    local p = parse("redis://cache.example:6380/3")
    assert.are.same({ { host = "cache.example", port = 6380 } }, p.hosts)
    assert.are.equal("/3", p.path)
    assert.are.equal("redis", p.scheme)
    assert.are.equal("redis", p.module)
  end)

  it("is guessed in the message where only the scheme is missing", function()
    for given, meant in pairs { ["127.0.0.1:7401"] = "redis://127.0.0.1:7401",
      ["cache.example:6379"] = "redis://cache.example:6379",
      ["/run/shop-locks"] = "file:///run/shop-locks" } do
      local _, message = url.parse(given)
      assert.is_truthy(message:find("did you mean " .. meant .. "?", 1, true))
    end
    for _, secret in ipairs { "plugh", "u:plugh@h:1", ":plugh" } do
      local _, message = url.parse(secret)
      assert.is_nil(message:find("plugh", 1, true), message)
    end
  end)

  it("leaves a missing port to the store", function()
    assert.are.equal(0, parse("redis://h").hosts[1].port)
    assert.are.equal("", parse("redis://h/").path)
  end)

  it("decodes user names and passwords", function()
    local p = parse("redis://u%40x:p%3A%2f%25w@h")
    assert.are.equal("u@x", p.username)
    assert.are.equal("p:/%w", p.password)
    p = parse("redis://:only@h")
    assert.is_nil(p.username)
    assert.are.equal("only", p.password)
    p = parse("redis://user@h")
    assert.are.equal("user", p.username)
    assert.is_nil(p.password)
    assert.are.equal("", parse("redis://user:@h").password)
    assert.are.equal("p:w", parse("redis://u:p:w@h").password)
    assert.are.equal("p@s,s", parse("redis://u:p%40s%2cs@h").password)
  end)

  it("takes IPv6 in brackets", function()
    local p = parse("redis://[::1]:7000/1")
    assert.are.same({ { host = "::1", port = 7000 } }, p.hosts)
    assert.are.equal("redis://[::1]:7000/1", p.shown)
    assert.are.equal("fe80::1%eth0", parse("zk://[fe80::1%eth0]").hosts[1].host)
  end)

  it("takes the zone of an IPv6 address, with its % as %25", function()
    for _, zone in ipairs { "%25eth0", "%eth0", "%25e%74h0", "%25%65th0" } do
      local p = parse("redis://[fe80::1" .. zone .. "]:6379")
      assert.are.same({ { host = "fe80::1%eth0", port = 6379 } }, p.hosts)
      assert.are.equal("redis://[fe80::1%25eth0]:6379", p.shown)
      assert.are.same(p, parse(p.shown))
    end
    local p = parse("zk://[fe80::1%2525-a_b.~],[::2%2]")
    assert.are.same({ "fe80::1%25-a_b.~", "::2%2" },
      { p.hosts[1].host, p.hosts[2].host })
  end)

  it("takes lists of hosts", function()
    local p = parse("zookeeper://a,b:2182,[::1]:2183/app/x")
    assert.are.same({ { host = "a", port = 0 }, { host = "b", port = 2182 },
      { host = "::1", port = 2183 } }, p.hosts)
    assert.are.equal("/app/x", p.path)
    assert.are.equal("zookeeper://a,b:2182,[::1]:2183/app/x", p.shown)
    p = parse("etcds://u:p@a,b:2380/app")
    assert.are.equal(2380, p.hosts[2].port)
    assert.are.equal("etcd", p.module)
    assert.is_true(p.tls)
    assert.are.equal("etcds://a,b:2380/app", p.shown)
    p = parse("consuls://:t@a/app")
    assert.are.equal("consul", p.module)
    assert.is_true(p.tls)
    assert.are.equal("t", p.password)
    assert.are.equal("consuls://a/app", p.shown)
    p = parse("postgress://u:p@a,b:5433/shop")
    assert.are.equal("postgres", p.module)
    assert.is_true(p.tls)
    assert.are.equal("shop", p.database)
    assert.are.equal("postgress://a,b:5433/shop", p.shown)
    assert.are.equal("a b", parse("postgresql://h/a%20b").database)
    p = parse("mysqls://u:p@a/shop")
    assert.are.equal("mysql", p.module)
    assert.is_true(p.tls)
    assert.are.equal("shop", p.database)
    assert.are.equal("mysql://a:33/s", parse("mariadb://a:33/s").shown)
    assert.is_true(parse("rediss+sentinel://a,b,c/m").tls)
    assert.are.equal("/m", parse("redis+sentinel://a,b/m").path)
    assert.are.equal("/m/2", parse("redis+sentinel://a,b/m/2").path)
  end)

  it("takes paths of this machine", function()
    assert.are.equal("/tmp/a dir", parse("file:///tmp/a%20dir").path)
    assert.are.equal("/tmp/x", parse("file://localhost/tmp/x").path)
    local p = parse("redis+unix://u:p@/run/r.sock")
    assert.are.equal("/run/r.sock", p.path)
    assert.are.equal("p", p.password)
    assert.are.same({}, p.hosts)
  end)

  it("takes the folder of PostgreSQL's socket, or the socket itself", function()
    local p = parse("postgres+unix://u:p@/run/postgresql/shop")
    assert.are.equal("shop", p.database)
    assert.are.same({ { host = "/run/postgresql", port = 0 } }, p.reach)
    assert.are.equal("postgres+unix:///run/postgresql/shop", p.shown)
    p = parse("postgres+unix:///run/postgresql/.s.PGSQL.5433/shop")
    assert.are.equal("shop", p.database)
    assert.are.same({ { host = "/run/postgresql", port = 5433 } }, p.reach)
    assert.are.equal("/run/.s.PGSQL.99999",
      parse("postgres+unix:///run/.s.PGSQL.99999/shop").reach[1].host)
  end)

  it("takes MySQL's socket, then the database", function()
    local p = parse("mysql+unix://u:p@/run/mysqld/mysqld.sock/shop")
    assert.are.equal("shop", p.database)
    assert.are.same({ { host = "/run/mysqld/mysqld.sock", port = 0 } }, p.reach)
    assert.are.equal("mysql+unix:///s/shop", parse("mariadb+unix:///s/shop")
      .shown)
  end)

  it("takes a second URL past a pooler", function()
    local main = parse("postgres://pooler:6432/shop")
    assert.are.same({ ["1 host"] = "a", ["1 port"] = 0, ["2 host"] = "b",
      ["2 port"] = 5433, database = "real", username = "u", password = "p",
      tls = true }, url.parse_listen("postgress://u:p@a,b:5433/real", main))
    assert.are.same({ ["1 host"] = "/run", ["1 port"] = 0, database = "real" },
      url.parse_listen("postgres+unix:///run/real", main))
    for _, other in ipairs { "redis://h", "postgres://h", "h" } do
      local parts, message, code = url.parse_listen(other, main)
      assert.is_nil(parts)
      assert.are.equal("invalid", code)
      assert.matches("postgres://", message)
    end
    assert.is_nil((url.parse_listen("postgres://h/x", parse("redis://h"))))
  end)

  it("knows upper case schemes and aliases", function()
    for alias, scheme in pairs { ZK = "zookeeper", valkey = "redis",
        valkeys = "rediss", Redis = "redis" } do
      local p = parse(alias .. "://h:1")
      assert.are.equal(scheme, p.scheme)
      assert.are.equal(parse(scheme .. "://h").module, p.module)
      assert.are.equal(scheme .. "://h:1", p.shown)
    end
  end)

  it("never shows a secret", function()
    assert.are.equal("redis://h:1/0", parse("redis://u:hush@h:1/0").shown)
    for _, s in ipairs {
      "redis://:hush/more@h", "redis://u:hush@h:0", "redis://u:hush@h,i",
      "redis://u:hush@", "redis://:hush", "redis://u:hush@h/db",
      "redis://u:hu%zzsh@h", "redis://u:hush#x@h", "redis://u:hush?x@h",
      "redis://u:hush @h", "u:hush@h", "file://u:hush@/x",
      "zk://u:hush@h/a//b", "mysqll://u:hush@h", "redis://u:hush@h/0\n",
      "redis://u:hush@[::1", "redis://u:hush%00@h",
      "zk://u/hush@h/app", "zk://u/hush/more@h", "file:///hush@h",
      "redis://:hush@h,i", "zk://u:hush@h1/a,h2/a", "redis://:hu@hush@h",
      "redis+sentinel://u:hush@h1,u:hush@h2/m", "redis://u:hush@::1",
      "redis+sentinel://u:hush@h1,h2", "redis://:hush,hush@h",
    } do
      local message = refused(s)
      assert.is_nil(message:find("hush", 1, true), message)
      assert.is_nil(message:find("u:hu", 1, true), message)
    end
  end)

  it("refuses URLs that cannot be a store", function()
    for _, s in ipairs {
      "", "redis", "redis:", "redis:/h", "://h", "http://h", "redis://",
      "redis://h:", "redis://h:x", "redis://h:65536", "redis://h:0",
      "redis://h:-1", "redis://h:6379:1", "redis://a,b", "redis://h,",
      "redis://h/x", "redis://h/0/1", "redis://h/-1", "redis://h/100000",
      "redis://::1", "redis://[::1", "redis://[fe80]",
      "redis://[fe80::1%]", "redis://[fe80::1%25]", "redis://[fe80::1%25%]",
      "redis://[::1%25a%2fb]", "redis://[::1%25a%00]", "redis://[::1eth0]",
      "redis://[::1%25a%40]", "redis://h?ttl=5",
      "redis://h#x", "redis://h/%zz", "redis://" .. ("h"):rep(254),
      "zk://h/a//b",
      "zk://h/../x", "zk://h/a/", "zk://,", "file://dir", "file:///",
      "file://", "redis+unix://h/x", "redis+unix://",
      "redis+sentinel://h", "redis+sentinel://h/m/x", "redis://h\0x",
      "redis://h/0\0", "redis://" .. ("h,"):rep(70) .. "h",
      "redis://" .. ("x"):rep(5000), "file:///tmp/%00", "file:///a\nb",
    } do
      refused(s)
    end
  end)

  it("says how a set with Sentinels is written here", function()
    for _, s in ipairs { "redis-sentinel://a,b?sentinelMasterId=m",
        "sentinel://m:m/0" } do
      assert.is_truthy(refused(s):find("write redis+sentinel://", 1, true))
    end
  end)

  it("says how a cluster is written here", function()
    for _, s in ipairs { "redis-cluster://a,b", "redis://a,b" } do
      local message = refused(s)
      assert.is_truthy(message:find("redis+cluster://host1,", 1, true), message)
    end
    assert.is_nil(refused("redis-cluster://a"):find("Sentinel", 1, true))
  end)

  it("says how an '@' is written in a path", function()
    for _, s in ipairs { "file:///srv/a@b", "file://localhost/@" } do
      local message = refused(s)
      assert.matches("path.* %%40", message)
      assert.is_nil(message:find("password", 1, true), message)
    end
    assert.are.equal("/srv/a@b", parse("file:///srv/a%40b").path)
    assert.matches("'/' as %%2F", refused("zk://u/w@h/app"))
  end)

  it("knows no scheme without a store, and names those that there are",
    function()
      for _, scheme in ipairs { "mysql+tls", "oracle", "http", "rediss+unix",
          "redus" } do
        local message = refused(scheme .. "://h/x")
        assert.matches("no store has the scheme '" .. scheme:gsub("%p", "%%%0"),
          message)
        for _, known in ipairs { "redis://", "redis+unix:///",
            "redis+sentinel://", "redis+cluster://", "redlock://",
            "zookeeper://",
            "postgres://", "mysql://", "file:///" } do
          assert.is_truthy(message:find(known, 1, true), message)
        end
      end
    end)

  it("survives any bytes", function()
    math.randomseed(7)
    local pieces = { "redis", "zk", "file", "://", ":", "/", "@", "[", "]",
      "%", "%41", ",", "h", "::", "6379", "\0", "\255", "?", "#", " ", "." }
    for _ = 1, 20000 do
      local parts = {}
      for i = 1, math.random(0, 12) do
        parts[i] = pieces[math.random(#pieces)]
      end
      local parsed, message, code = url.parse(table.concat(parts))
      if not parsed then
        assert(message:find(code .. ": ", 1, true) == 1, message)
      end
    end
  end)

  -- Left: what somebody wrote; right: what the message has to say, which is
  -- the right spelling where that is known. Nothing is guessed.
  local USER_TWICE = "once, before the first host"
  local NEAR_MISSES = {
    -- lists of hosts with paths
    ["zookeeper://h1:2181/app,h2:2181/app"] =
      "zookeeper://h1:2181,h2:2181/app",
    ["zookeeper://h1:2181/app,h2:2181"] = "zookeeper://h1:2181,h2:2181/app",
    ["zk://h1:2181,h2:2181/app,h3:2181/app"] =
      "zookeeper://h1:2181,h2:2181,h3:2181/app",
    ["zk://[::1]:1/app,[::2]:2/app"] = "zookeeper://[::1]:1,[::2]:2/app",
    ["zk://h1/a/b,h2/a/b"] = "zookeeper://h1,h2/a/b",
    ["zk://u:p@h1/app,h2/app"] = "zookeeper://user:password@h1,h2/app",
    ["zk://h1/app,h2/other"] = "zookeeper://host1,host2/path",
    ["zookeeper://h1,zookeeper://h2/app"] = "zookeeper://h1,h2/app",
    ["zk://h1/app,"] = "zookeeper://h1/app",
    ["zk://h1;h2/app"] = "','",
    ["redis+sentinel://h1:26379/m,h2:26379/m"] =
      "redis+sentinel://h1:26379,h2:26379/m",
    ["redis+sentinel://h1/m/0,h2/m/0"] = "redis+sentinel://h1,h2/m/0",
    ["rediss+sentinel://h1/m,h2"] = "rediss+sentinel://h1,h2/m",
    ["redis://h1/0,h2/0"] = "one host",
    ["redis://h1:6379,h2:6379"] = "redis+sentinel://host1,host2/",
    -- what stands behind the hosts has neither ports nor a second part
    ["zk://h1/app:2181"] = "%3A",
    ["zk://h1//app"] = "empty",
    ["zk://h1,h2/app/"] = "zookeeper://h1,h2/app",
    ["redis://h/0:6379"] = "redis://h/0",
    ["redis://h/0/1"] = "redis://h/0",
    ["redis://h:6379/0/"] = "redis://h:6379/0",
    ["redis://h/cache"] = "redis://h/0",
    ["redis+sentinel://h1/m/0/1"] = "redis+sentinel://h1/m/0",
    ["redis+sentinel://h1/m:0"] = "%3A",
    ["redis+sentinel://h1/m/x"] = "redis+sentinel://h1/m/0",
    ["file:///srv/a,file:///srv/b"] = "%2C",
    ["file:///srv/a:b"] = "file:///srv/a%3Ab",
    ["redis+unix:///run/r.sock:6379"] = "%3A",
    ["redis+unix:///run/a.sock,/run/b.sock"] = "%2C",
    -- '/', '@' and ',' in passwords, and a user for each host
    ["redis://:hush/more@h"] = "%2F",
    ["redis://u:hush/more@h:6379/0"] = "%2F",
    ["zk://u:hush/more@h/app"] = "%2F",
    ["redis+unix://:hush/more@/run/r.sock"] = "%2F",
    ["redis://u:hu@sh@h"] = "%40",
    ["redis://:hu,sh@h"] = "%2C",
    ["redis+sentinel://u:p@h1,u:p@h2/m"] = USER_TWICE,
    ["redis+sentinel://h1,u:p@h2/m"] = USER_TWICE,
    ["redis+sentinel://h1:26379,u:p@h2:26379/m"] = USER_TWICE,
    ["zk://u:p@h1/app,u:p@h2/app"] = USER_TWICE,
    ["redis://u:p%4@h"] = "hex digits",
    ["file://u:p@/srv/x"] = "no user name",
    -- IPv6
    ["redis://::1"] = "redis://[::1]:6379",
    ["redis://::1:6379/0"] = "redis://[::1]:6379",
    ["redis://fe80::1%eth0"] = "redis://[::1]:6379",
    ["rediss://:p@::1"] = "rediss://[::1]:6379",
    ["zk://h,fe80::2:2181/app"] = "zookeeper://[::1]:2181",
    ["redis+sentinel://::1/m"] = "redis+sentinel://[::1]:26379",
    ["redis://[::1"] = "brackets",
    ["redis://[::1]6379"] = "port",
    ["redis://[h]:6379"] = "brackets",
    ["redis://[127.0.0.1]"] = "brackets",
    -- hosts and ports
    ["redis:///0"] = "host is missing",
    ["redis://:6379"] = "host",
    ["redis://h:6379:0"] = "port",
    ["redis://h:port"] = "port",
    ["zookeeper:///app"] = "host is missing",
    -- the name of the primary
    ["redis+sentinel://h1,h2:26379"] = "redis+sentinel://h1,h2:26379/mymaster",
    ["redis+sentinel://h1/"] = "redis+sentinel://h1/mymaster",
    ["redis+sentinel://u:p@h1"] =
      "redis+sentinel://user:password@h1/mymaster",
    ["redis+sentinel://h1//0"] = "redis+sentinel://h1/mymaster",
    ["redis+sentinel://h1,h2/0"] = "redis+sentinel://h1,h2/mymaster/0",
    ["redis-sentinel://h1?sentinelMasterId=m"] = "redis+sentinel://host1",
    -- the name of the database
    ["postgres://h"] = "postgres://h/app",
    ["postgres://u:hush@h:5432/"] = "postgres://user:password@h:5432/app",
    ["postgres://h/shop/public"] = "postgres://h/shop",
    ["postgres://h1/shop,h2/shop"] = "postgres://h1,h2/shop",
    ["postgres://h/shop?sslmode=require"] = "table",
    ["postgres+unix:///shop"] = "postgres+unix:///run/postgresql/app",
    ["postgres+unix:///run/postgresql/.s.PGSQL.5432"] =
      "postgres+unix:///run/postgresql/.s.PGSQL.5432/app",
    ["postgres+unix://h/shop"] = "postgres+unix:///h/shop",
    ["mysql://h"] = "mysql://h/app",
    ["mysql://h1,h2/shop"] = "one",
    ["mysql+unix:///run/mysqld/mysqld.sock"] =
      "mysql+unix:///run/mysqld/mysqld.sock/app",
    ["mysql+unix:///shop"] = "mysql+unix:///run/mysqld/mysqld.sock/app",
    -- paths of this machine
    ["file://var/lock"] = "file:///var/lock",
    ["file:var/lock"] = "file:///",
    ["file:/var/lock"] = "file:///",
    ["redis+unix://run/r.sock"] = "redis+unix:///run/r.sock",
    ["redis+unix://h:6379/0"] = "redis+unix:///",
    ["redis:/h"] = "redis://",
    ["redis:h"] = "redis://",
    ["127.0.0.1:6379"] = "redis://",
    -- options, which stand in the table
    ["redis://h/?db=1"] = "table",
    ["redis+unix:///run/r.sock?db=1"] = "table",
    ["zk://h1, h2/app"] = "blanks",
  }

  it("says of a near miss how it is written", function()
    for wrong, right in pairs(NEAR_MISSES) do
      local parts, message, code = url.parse(wrong)
      assert(not parts, wrong .. " is taken")
      assert.are.equal("invalid", code)
      assert(message:find(right, 1, true), wrong .. " is told " .. message)
      assert.is_nil(message:find("hush", 1, true), message)
      if url.parse((right:gsub("user:password@", ""))) then
        parse(right) -- what is told can be used
      end
    end
  end)

  it("keeps in a path what is written as %2C and %3A", function()
    assert.are.equal("/a:b,c", parse("zk://h/a%3Ab%2cc").path)
    assert.are.equal("/srv/a,b:c", parse("file:///srv/a%2Cb%3ac").path)
    assert.are.equal("/0/0", parse("redis+sentinel://h/0/0").path)
    for _, s in ipairs { "zk://h/a%3Ab%2cc", "file:///srv/a%2Cb%3ac%25%40" } do
      local p = parse(s)
      assert.are.same(p, parse(p.shown))
    end
  end)

  it("asks for the password of a user", function()
    local dlock = require "dlock"
    local function open(where, opts)
      opts = opts or {}
      opts.url = where
      local store, message, code = dlock.open(opts)
      return store and (store:close(0) or true), message, code
    end
    for where, right in pairs { ["redis://hush@h"] = "redis://:password@",
        ["rediss://hush@h/1"] = "rediss://:password@",
        ["redis+unix://hush@/s"] = "redis+unix://:password@",
        ["redis+sentinel://hush@h/m"] = "redis+sentinel://:password@" } do
      local store, message, code = open(where)
      assert.is_nil(store)
      assert.are.equal("invalid", code)
      assert.is_truthy(message:find(right, 1, true), message)
      assert.is_nil(message:find("hush", 1, true), message)
      local as_user, without = where:gsub("hush", "u:"), where:gsub("hush@", "")
      assert.is_true(open(as_user))
      assert.is_true(open(where, { password = "x" }))
      assert.is_true(open(where, { password = function() return "x" end }))
      assert.is_true(open(without, { username = "u" }))
    end
  end)
end)
