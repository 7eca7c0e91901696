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
    assert.are.equal("p@ss", parse("redis://u:p@ss@h").password)
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
    assert.are.equal("redis", parse("redlock://a,b,c/1").module)
    assert.is_true(parse("redlocks://a,b,c/1").tls)
    assert.is_true(parse("rediss+cluster://a,b,c").tls)
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
      "file://", "redis+unix://h/x", "redis+unix://", "redis+cluster://h/1",
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

  it("says how an '@' is written in a path", function()
    for _, s in ipairs { "file:///srv/a@b", "file://localhost/@" } do
      local message = refused(s)
      assert.matches("path.* %%40", message)
      assert.is_nil(message:find("password", 1, true), message)
    end
    assert.are.equal("/srv/a@b", parse("file:///srv/a%40b").path)
    assert.matches("'/' as %%2F", refused("zk://u/w@h/app"))
  end)

  it("says what is not there yet", function()
    refused("mysql://h/db", "unsupported")
    refused("etcd://h", "unsupported")
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
end)
