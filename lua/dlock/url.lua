-- Takes URLs apart: scheme://[user[:password]@]hosts, then one path. A URL
-- with two readings is refused, with the right spelling. A malformed URL may
-- have a password too, so messages repeat only hosts and paths.
local results = require "dlock.results"
local text = require "dlock.text"

local url = {}

local LONGEST, MOST_HOSTS = 4096, 64
local ZONE = "^[" .. text.ALNUM .. "%-_%.~]+$"
local HOST = "^([" .. text.ALNUM .. "%-_%.]+)(.*)$"
local SCHEME = ("^([%s][%s+.-]*)://(.*)$"):format(text.LETTERS, text.ALNUM)
local AGAIN = ("^[%s][%s+.-]*://"):format(text.LETTERS, text.ALNUM)
local NOT_IN_URLS = "[ " .. text.CONTROL .. "]"

--   module  dlock.store.<module>
--   hosts   how many at most; 0: a path on this machine
--   path    what may follow the hosts
--   auth    a user may stand before the path
--   same    the scheme's other name, which the store gets and messages show, so
--           that both are one store to dlock.all
--   port    for examples
local SCHEMES = {
  ["redis"] = { module = "redis", hosts = 1, path = "db", port = 6379 },
  ["rediss"] =
    { module = "redis", hosts = 1, path = "db", port = 6379, tls = true },
  ["valkey"] = { same = "redis" },
  ["valkeys"] = { same = "rediss" },
  ["redis+unix"] = { module = "redis", hosts = 0, path = "file", auth = true },
  ["redis+sentinel"] =
    { module = "redis", hosts = MOST_HOSTS, path = "master", port = 26379 },
  ["rediss+sentinel"] = { module = "redis", hosts = MOST_HOSTS,
    path = "master", port = 26379, tls = true },
  ["redis+cluster"] =
    { module = "redis", hosts = MOST_HOSTS, path = "no_db", port = 6379 },
  ["rediss+cluster"] = { module = "redis", hosts = MOST_HOSTS,
    path = "no_db", port = 6379, tls = true },
  ["redlock"] = { module = "redlock", hosts = MOST_HOSTS, path = "db",
    port = 6379 },
  ["redlocks"] = { module = "redlock", hosts = MOST_HOSTS, path = "db",
    port = 6379, tls = true },
  ["zookeeper"] =
    { module = "zookeeper", hosts = MOST_HOSTS, path = "chroot", port = 2181 },
  ["zk"] = { same = "zookeeper" },
  ["zookeepers"] = { module = "zookeeper", hosts = MOST_HOSTS,
    path = "chroot", port = 2181, tls = true },
  ["etcd"] =
    { module = "etcd", hosts = MOST_HOSTS, path = "chroot", port = 2379 },
  ["etcds"] = { module = "etcd", hosts = MOST_HOSTS, path = "chroot",
    port = 2379, tls = true },
  ["consul"] = { module = "consul", hosts = 1, path = "chroot", port = 8500 },
  ["consuls"] = { module = "consul", hosts = 1, path = "chroot", port = 8500,
    tls = true },
  ["postgres"] = { module = "postgres", hosts = MOST_HOSTS,
    path = "database", port = 5432 },
  ["postgress"] = { module = "postgres", hosts = MOST_HOSTS,
    path = "database", port = 5432, tls = true },
  ["postgres+unix"] =
    { module = "postgres", hosts = 0, path = "socket", auth = true },
  ["postgresql"] = { same = "postgres" },
  ["mysql"] = { module = "mysql", hosts = 1, path = "database", port = 3306 },
  ["mysqls"] = { module = "mysql", hosts = 1, path = "database", port = 3306,
    tls = true },
  ["mysql+unix"] = { module = "mysql", hosts = 0, path = "socket_file",
    auth = true },
  ["mariadb"] = { same = "mysql" },
  ["mariadbs"] = { same = "mysqls" },
  ["mariadb+unix"] = { same = "mysql+unix" },
  ["file"] = { module = "file", hosts = 0, path = "file" },
  ["memory"] = { module = "file", hosts = 0, path = "none" },
}

local KNOWN = "redis://host:6379, redis+unix:///socket,"
  .. " redis+sentinel://host1:26379,host2/master, redis+cluster://host1,host2,"
  .. " redlock://host1,host2,host3,"
  .. " zookeeper://host:2181, etcd://host:2379, consul://host:8500,"
  .. " postgres://host:5432/database, mysql://host:3306/database,"
  .. " file:///directory, memory://"

local ELSEWHERE = {
  ["redis-sentinel"] = "redis+sentinel://host1,host2/master",
  ["sentinel"] = "redis+sentinel://host1,host2/master",
  ["redis-cluster"] = "redis+cluster://host1,host2",
}

local function byte_of(hex)
  return string.char(tonumber(hex, 16))
end

-- nil: a % is not followed by two hex digits.
local function decode(s)
  if s:gsub("%%%x%x", ""):find("%", 1, true) then
    return nil
  end
  return (s:gsub("%%(%x%x)", byte_of))
end

local function parse_port(digits)
  local port = digits:match("^%d%d?%d?%d?%d?$") and tonumber(digits, 10)
  if port and port >= 1 and port <= 65535 then
    return port
  end
end

-- Behind %25 (RFC 6874) or a bare %, as people write it elsewhere.
local function parse_zone(raw)
  local escaped = raw:match("^%%25(.*)$")
  local zone = escaped and decode(escaped)
    or not escaped and raw:match("^%%(.*)$")
  return zone and zone:find(ZONE) and "%" .. zone
end

local function split_host(part)
  local address, zone, rest = part:match("^%[(%x*:[%x:%.]*)([^%]]*)%](.*)$")
  if not address then
    return part:match(HOST)
  end
  zone = zone == "" and zone or parse_zone(zone)
  return zone and address .. zone, rest
end

-- User information for an example, if the URL had some.
local function user_of(info)
  return not info and "" or info:find("^:") and ":password@"
    or "user:password@"
end

local function escape(mark)
  return ("%%%02X"):format(mark:byte())
end

local function show(scheme, hosts, path, user)
  local names = {}
  for i, h in ipairs(hosts) do
    local name = h.host:find(":", 1, true) and "[" .. h.host .. "]" or h.host
    name = name:gsub("%%", "%%25")
    names[i] = h.port == 0 and name or name .. ":" .. ("%d"):format(h.port)
  end
  return scheme .. "://" .. (user or "") .. table.concat(names, ",")
    .. path:gsub("[%%,:@?# ]", escape)
end

-- ---- hosts ----

local function is_bare_ipv6(part)
  local _, colons = part:gsub(":", "")
  return colons > 1 and part:gsub("%%.*", ""):find("^[%x:%.]+$")
end

local function parse_host(form, part, n)
  local rule = form.rule
  local comma = rule.hosts > 1 and "; between two hosts stands a ','" or ""
  local host, rest = split_host(part)
  if is_bare_ipv6(part) then
    return nil, ("host %d is an IPv6 address; write it in brackets, as in"
      .. " %s://[::1]:%d"):format(n, form.scheme, rule.port)
  elseif not host or #host > 253 then
    return nil, ("host %d is not a name, an IPv4 address or an IPv6 address"
      .. " in [brackets]%s"):format(n, comma)
  elseif rest == "" then
    return { host = host, port = 0 }
  end
  local port = rest:sub(1, 1) == ":" and parse_port(rest:sub(2))
  if not port then
    return nil, ("what follows host %d is not a port from 1 to 65535%s")
      :format(n, comma)
  end
  return { host = host, port = port }
end

local function one_host(form)
  return form.rule.module == "redis"
    and "it takes one host, not a list; with Sentinels write"
      .. " redis+sentinel://host1,host2/master, with a cluster"
      .. " redis+cluster://host1,host2"
    or ("the %s store takes one host, not a list"):format(form.rule.module)
end

local function parse_hosts(form, list)
  local hosts, most = {}, form.rule.hosts
  if list == "" then
    return nil, ("the host is missing, as in %s://127.0.0.1:%d")
      :format(form.scheme, form.rule.port)
  end
  for part in (list .. ","):gmatch("([^,]*),") do
    local host, problem = parse_host(form, part, #hosts + 1)
    if not host then
      return nil, problem
    end
    hosts[#hosts + 1] = host
    if #hosts > most then
      return nil, most == 1 and one_host(form)
        or ("more than %d hosts"):format(most)
    end
  end
  return hosts
end

-- ---- the path ----

-- Each gives a decoded path's problem. shown(path) is this URL with another
-- path.
local PATHS = {}

local DB = "^/%d%d?%d?%d?%d?$"

function PATHS.db(path, shown)
  if path ~= "" and not path:find(DB) then
    return "after the host only /<database number> may follow, as in "
      .. shown("/0")
  end
end

function PATHS.master(path, shown)
  local name, db = path:match("^(/[^/]+)(.*)$")
  if not name then
    return "after the hosts follows /<name of the primary>, as in "
      .. shown("/mymaster")
  elseif db == "" and name:find(DB) then
    return ("the name of the primary is missing, as in %s (behind a name that"
      .. " is a number stands a database)"):format(shown("/mymaster" .. name))
  elseif db ~= "" and not db:find(DB) then
    return "after the name of the primary only /<database number> may follow,"
      .. " as in " .. shown(name .. "/0")
  end
end

function PATHS.chroot(path, shown)
  for part in path:gmatch("/([^/]*)") do
    if part == "." or part == ".." then
      return "the path has a '.' or '..' part"
    elseif part == "" then
      return "the path has an empty part; write "
        .. shown((path:gsub("//+", "/"):gsub("/$", "")))
    end
  end
end

function PATHS.database(path, shown)
  local name, more = path:match("^(/[^/]+)(.*)$")
  if not name then
    return "after the hosts follows /<database>, as in " .. shown("/app")
  elseif more ~= "" then
    return "after the hosts only /<database> may follow, as in " .. shown(name)
  end
end

-- The folder of a server's socket, or its socket there, then a database.
local SOCKET = "^(/.+)/([^/]+)$"

function PATHS.socket(path, shown)
  local folder, database = path:match(SOCKET)
  if not folder or database:find("^%.s%.PGSQL%.") then
    return "after :// follows the folder of the socket, then /<database>, as"
      .. " in " .. shown((database and path or "/run/postgresql") .. "/app")
  end
end

-- MySQL's: a socket has a name that ends so.
function PATHS.socket_file(path, shown)
  local socket, database = path:match(SOCKET)
  if not socket or database:find("%.sock$") then
    return "after :// follows the socket, then /<database>, as in "
      .. shown((database and path or "/run/mysqld/mysqld.sock") .. "/app")
  end
end

function PATHS.file(path, shown)
  if path == "" or path == "/" then
    return "after :// follows an absolute path, as in " .. shown("/path")
  end
end

function PATHS.no_db(path, shown)
  return path ~= "" and "a cluster has one database, so nothing follows the"
    .. " hosts, as in " .. shown("") or nil
end

local NOTHING = "nothing follows it: memory:// is one store for all of a"
  .. " process"

function PATHS.none(path)
  return path ~= "" and NOTHING or nil
end

local function parse_path(form, raw, shown)
  local kind = form.rule.path
  local path = decode(raw)
  if not path then
    return nil, "a '%' in the path is not followed by two hex digits"
  elseif text.has_controls(path) then
    return nil, "the path holds control bytes"
  elseif path == "/" and kind ~= "file" then
    path = ""
  end
  local problem = PATHS[kind](path, shown)
  if problem then
    return nil, problem
  end
  return path
end

-- ---- user and password ----

-- Gives username, password (or nil), or false and the problem.
local function parse_user(info)
  local user, password = info:match("^([^:]*):(.*)$")
  user, password = decode(user or info), password and decode(password)
  if not user or (password == nil and info:find(":", 1, true)) then
    return false, "a '%' in the user name or password is not followed by two"
      .. " hex digits"
  end
  if (user .. (password or "")):find("%z") then
    return false, "the user name or password holds a NUL byte"
  end
  return user ~= "" and user or nil, password
end

-- Gives the user information, or nil, and the rest. Gives false and the problem
-- where '@', '/' or ',' make its end uncertain.
local function split_user(rule, rest)
  local authority, raw = rest:match("^([^/]*)(.*)$")
  local info, list = authority:match("^([^@]*)@(.*)$")
  local no_user = rule.hosts == 0
    and (not rule.auth or authority == "" or authority == "localhost")
  if info and no_user then
    return false, "it takes no user name or password"
  elseif info and (list .. raw):find("@", 1, true)
      or info and info:find(",", 1, true) then
    return false, "user and password stand once, before the first host; in"
      .. " them write '@' as %40 and ',' as %2C"
  elseif not raw:find("@", 1, true) then
    return info, (list or authority) .. raw
  elseif no_user then
    return false, "there is an '@' in the path; write it as %40"
  end
  return false, "there is an '@' after the first '/'; in a user name or"
    .. " password write '/' as %2F and '@' as %40"
end

-- ---- all of it ----

-- Nil when the hosts' paths differ.
local function hosts_first(list)
  local hosts, path = {}, ""
  for part in (list .. ","):gmatch("([^,]*),") do
    local host, own = part:gsub(AGAIN, ""):match("^([^/]*)(.*)$")
    if own ~= "" and path ~= "" and own ~= path then
      return nil
    end
    path = own ~= "" and own or path
    hosts[#hosts + 1] = host ~= "" and host or nil
  end
  return table.concat(hosts, ",") .. path
end

local take_apart

-- The problem of a host, port or scheme that may be in the path.
local function misplaced(form, list, raw)
  local most, whole = form.rule.hosts, list .. raw
  local mark = raw:match("[,:]") or list:find(":$") and raw:match("^//")
  if not mark then
    return nil
  elseif most == 1 then
    return whole:find(",", 1, true) and one_host(form)
  end
  local meant = most > 1 and hosts_first(whole)
  local parts = meant and meant ~= whole and take_apart(form, meant)
  if parts then
    return "all hosts stand before the path: "
      .. show(form.scheme, parts.hosts, parts.path, form.user)
  elseif mark == ":" then
    return "a ':' in the path is written %3A"
      .. (most > 1 and ", and a port stands behind its host"
        or ": " .. form.scheme .. "://" .. form.user .. whole:gsub(":", "%%3A"))
  end
  return "a ',' in the path is written %2C" .. (most > 1
    and (", and all hosts stand before the path: %s://host1,host2/path")
      :format(form.scheme) or "")
end

local function bad_place(form, list, raw)
  if form.rule.path == "none" then
    return list .. raw ~= "" and NOTHING or nil
  elseif list ~= "" and list ~= "localhost" then
    local path = list:find("^[" .. text.ALNUM .. "%-_%.]+$")
      and list .. raw or "path"
    return ("it names something on this machine: after :// follows an absolute"
      .. " path, as in %s:///%s"):format(form.scheme, path)
  end
end

-- form: scheme, rule and user (from user_of).
function take_apart(form, rest)
  local list, raw = rest:match("^([^/]*)(.*)$")
  local problem = form.rule.hosts == 0 and bad_place(form, list, raw)
    or misplaced(form, list, raw)
  if problem then
    return nil, problem
  end
  local out = { hosts = {} }
  if form.rule.hosts > 0 then
    out.hosts, problem = parse_hosts(form, list)
    if not out.hosts then
      return nil, problem
    end
  end
  out.path, problem = parse_path(form, raw, function(path)
    return show(form.scheme, out.hosts, path, form.user)
  end)
  return out.path and out, problem
end

-- Where a database's server is, and its name. A socket that is named tells the
-- port of its server.
local function add_database(out)
  local folder, database = out.path:match(SOCKET)
  out.database = database or out.path:sub(2)
  if folder then
    local there, digits = folder:match("^(.+)/%.s%.PGSQL%.(%d+)$")
    local port = there and parse_port(digits)
    out.reach = { { host = port and there or folder, port = port or 0 } }
  end
end

local function read(scheme, rule, rest)
  local info, left = split_user(rule, rest)
  if info == false then
    return nil, left
  end
  local user, password
  if info then
    user, password = parse_user(info)
    if user == false then
      return nil, password
    end
  end
  local out, problem = take_apart(
    { scheme = scheme, rule = rule, user = user_of(info) }, left)
  if not out then
    return nil, problem
  end
  out.username, out.password = user, password
  if rule.module == "postgres" or rule.module == "mysql" then
    add_database(out)
  end
  return out
end

local function invalid(what)
  return results.fail("invalid", what)
end

-- A hint for what has no scheme. Other text may be a secret, and is not shown.
local function meant(s)
  local shape = s:find("^[0-9A-Za-z.-]+:%d%d?%d?%d?%d?$") and "redis://"
    or s:find("^/[0-9A-Za-z._/-]*$") and "file://"
  return shape and (" did you mean %s%s?"):format(shape, s) or ""
end

-- How a Redlock's store calls a node of its own.
local NODES = { redis = "redlock", rediss = "redlocks",
  ["redis+unix"] = "redlock+unix" }

-- Each server of a Redlock gets a store of its own, by these parts.
local function with_nodes(out, list)
  local nodes, seen = {}, {}
  if #list < 3 or #list > 9 then
    return invalid(("a Redlock has 3 to 9 servers, not %d; for one write"
      .. " redis://"):format(#list))
  end
  for i, node in ipairs(list) do
    local host, twin = node.hosts[1] or {}, seen[node.shown]
    if twin then
      return invalid(("server %d and server %d are the same; each has one vote")
        :format(twin, i))
    end
    seen[node.shown] = i
    for name, value in pairs { scheme = node.scheme, shown = node.shown,
        host = host.host, port = host.port, path = node.path,
        username = node.username, password = node.password } do
      nodes[i .. " " .. name] = value
    end
  end
  out.nodes = nodes
  return out
end

---@return table|nil # shown, scheme, module, tls, hosts, path, username,
--- password, nodes, database, reach (in place of hosts)
function url.parse(s)
  if #s > LONGEST then
    return invalid(("the URL is longer than %d bytes"):format(LONGEST))
  end
  local scheme, rest = s:match(SCHEME)
  if not scheme or #scheme > 32 then
    return invalid("this is not a URL of a store;" .. meant(s)
      .. " there are " .. KNOWN)
  end
  scheme = text.lower(scheme)
  local rule = SCHEMES[scheme]
  if rule and rule.same then
    scheme, rule = rule.same, SCHEMES[rule.same]
  end
  if not rule then
    local here = ELSEWHERE[scheme]
    return invalid(("no store has the scheme '%s://'; %s %s"):format(scheme,
      here and "write" or "there are", here or KNOWN))
  end
  local function bad(problem)
    return invalid(("the %s:// URL cannot be used: %s"):format(scheme, problem))
  end
  if rest:find("[?#]") then
    return bad("'?' and '#' have no meaning in it; options go into the table"
      .. " given to dlock.open, and in a password they are %3F and %23")
  elseif rest:find(NOT_IN_URLS) then
    return bad("it holds blanks or control bytes")
  end
  local out, problem = read(scheme, rule, rest)
  if not out then
    return bad(problem)
  end
  out.scheme, out.module, out.tls = scheme, rule.module, rule.tls
  out.shown = show(scheme, out.hosts, out.path)
  if out.module ~= "redlock" then
    return out
  end
  local list = {}
  for i, host in ipairs(out.hosts) do
    list[i] = { scheme = scheme, shown = show(scheme, { host }, out.path),
      hosts = { host }, path = out.path }
  end
  return with_nodes(out, list)
end

--- The same for a Redlock whose servers have a URL each.
function url.parse_nodes(s, list)
  local nodes, names, tls = {}, {}, nil
  if s ~= nil and s ~= "redlock://" then
    return invalid("with nodes the url is redlock://, or is left out")
  end
  for i, one in ipairs(list) do
    if type(one) ~= "string" then
      return invalid("nodes is a list of URLs")
    end
    local node, message, code = url.parse(one)
    if not node then return nil, message, code end
    local scheme = NODES[node.scheme]
    if not scheme then
      return invalid(("a node of a Redlock is redis://, rediss:// or"
        .. " redis+unix://, not %s://"):format(node.scheme))
    end
    nodes[i], names[i], tls = node, node.shown:match("//(.*)"), tls or node.tls
    node.scheme = scheme
  end
  return with_nodes({ scheme = "redlock", module = "redlock", tls = tls,
    hosts = {}, path = "", shown = "redlock://" .. table.concat(names, ",") },
    nodes)
end

--- The URL of a second way to the same store, as parts for its options.
function url.parse_listen(s, where)
  local parts, message, code = url.parse(s)
  if not parts then return nil, message, code end
  if parts.module ~= where.module or where.module ~= "postgres" then
    return invalid("the option listen is a URL such as"
      .. " postgres://host:5432/database, for a store with such a URL")
  end
  local out = { database = parts.database, username = parts.username,
    password = parts.password, tls = parts.tls }
  for i, host in ipairs(parts.reach or parts.hosts) do
    out[i .. " host"], out[i .. " port"] = host.host, host.port
  end
  return out
end

return url
