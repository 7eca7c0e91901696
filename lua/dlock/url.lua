-- URLs of stores, taken apart into what the C side wants to know.
--
-- A URL may hold a password, also where it is malformed, so no message here
-- ever repeats any part of a URL but its scheme; `shown` is put together from
-- the parts that were understood, without the user information.
local text = require "dlock.text"

local url = {}

local LONGEST, MOST_HOSTS = 4096, 64
local ZONE = "^[" .. text.ALNUM .. "%-_%.~]+$"
local HOST = "^([" .. text.ALNUM .. "%-_%.]+)(.*)$"
local SCHEME = ("^([%s][%s+.-]*)://(.*)$"):format(text.LETTERS, text.ALNUM)
local NOT_IN_URLS = "[ " .. text.CONTROL .. "]"

-- module: dlock.store.<module>, which may still say unsupported. hosts: how
-- many at most, 0 for none (a path on this machine). path: what may follow the
-- hosts. later: there is no such store yet. same: another name of that scheme,
-- which is what the store gets and what is shown, so that both names make
-- one store in the order of dlock.all. tls: what is said there is encrypted.
local SCHEMES = {
  ["redis"] = { module = "redis", hosts = 1, path = "db" },
  ["rediss"] = { module = "redis", hosts = 1, path = "db", tls = true },
  ["valkey"] = { same = "redis" },
  ["valkeys"] = { same = "rediss" },
  ["redis+unix"] = { module = "redis", hosts = 0, path = "file", auth = true },
  ["redis+sentinel"] =
    { module = "redis", hosts = MOST_HOSTS, path = "master" },
  ["rediss+sentinel"] =
    { module = "redis", hosts = MOST_HOSTS, path = "master", tls = true },
  ["redis+cluster"] = { module = "redis", hosts = MOST_HOSTS, path = "none" },
  ["rediss+cluster"] =
    { module = "redis", hosts = MOST_HOSTS, path = "none", tls = true },
  ["redlock"] = { module = "redis", hosts = MOST_HOSTS, path = "db" },
  ["redlocks"] =
    { module = "redis", hosts = MOST_HOSTS, path = "db", tls = true },
  ["zookeeper"] =
    { module = "zookeeper", hosts = MOST_HOSTS, path = "chroot" },
  ["zk"] = { same = "zookeeper" },
  ["zookeepers"] =
    { module = "zookeeper", hosts = MOST_HOSTS, path = "chroot", tls = true },
  ["file"] = { module = "file", hosts = 0, path = "file" },
  ["mysql"] = { later = true },
  ["etcd"] = { later = true },
}

-- How others write what is written otherwise here.
local ELSEWHERE = {
  ["redis-sentinel"] = "redis+sentinel://host1,host2/master",
  ["sentinel"] = "redis+sentinel://host1,host2/master",
}

local function byte_of(hex)
  return string.char(tonumber(hex, 16))
end

-- nil when a % is not followed by two hex digits.
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

-- The zone of an IPv6 address: behind %25, as in any URL (RFC 6874), or behind
-- a bare %, as people write it elsewhere. nil when it is none.
local function parse_zone(raw)
  local escaped = raw:match("^%%25(.*)$")
  local zone = escaped and decode(escaped)
    or not escaped and raw:match("^%%(.*)$")
  return zone and zone:find(ZONE) and "%" .. zone
end

-- The host without its brackets, and what follows it.
local function split_host(part)
  local address, zone, rest = part:match("^%[(%x*:[%x:%.]*)([^%]]*)%](.*)$")
  if not address then
    return part:match(HOST)
  end
  zone = zone == "" and zone or parse_zone(zone)
  return zone and address .. zone, rest
end

local function parse_host(part, n)
  local host, rest = split_host(part)
  if not host or #host > 253 then
    return nil, ("host %d is not a name, an IPv4 address or an IPv6 address"
      .. " in [brackets]"):format(n)
  end
  if rest == "" then
    return { host = host, port = 0 }
  end
  local port = rest:sub(1, 1) == ":" and parse_port(rest:sub(2))
  if not port then
    return nil, ("what follows host %d is not a port from 1 to 65535")
      :format(n)
  end
  return { host = host, port = port }
end

local function parse_hosts(list, most)
  local hosts = {}
  for part in (list .. ","):gmatch("([^,]*),") do
    local host, problem = parse_host(part, #hosts + 1)
    if not host then
      return nil, problem
    end
    hosts[#hosts + 1] = host
    if #hosts > most then
      return nil, most == 1 and "it takes one host, not a list"
        or ("more than %d hosts"):format(most)
    end
  end
  return hosts
end

-- Each takes the decoded path and returns what is wrong with it, if anything.
local function bad_db(path)
  if path ~= "" and not path:find("^/%d%d?%d?%d?%d?$") then
    return "after the host only /<database number> may follow"
  end
end

local PATHS = {
  db = bad_db,
  none = function(path)
    if path ~= "" then return "nothing may follow the hosts" end
  end,
  master = function(path)
    local db = path:match("^/[^/]+(.*)$")
    if not db then
      return "after the hosts follows /<name of the master>"
    end
    return bad_db(db)
  end,
  chroot = function(path)
    for part in path:gmatch("/([^/]*)") do
      if part == "" or part == "." or part == ".." then
        return "the path has an empty, '.' or '..' part"
      end
    end
  end,
  file = function(path)
    if path == "" or path == "/" then
      return "after :// follows an absolute path, as in scheme:///path"
    end
  end,
}

local function parse_path(rule, raw)
  local kind = rule.path
  if raw:find("@", 1, true) then
    return nil, rule.hosts == 0 and not rule.auth
      and "there is an '@' in the path; write it as %40"
      or "there is an '@' after the first '/'; in a user name or"
      .. " password write '/' as %2F and '@' as %40"
  end
  local path = decode(raw)
  if not path then
    return nil, "a '%' in the path is not followed by two hex digits"
  end
  if text.has_controls(path) then
    return nil, "the path holds control bytes"
  end
  if path == "/" and kind ~= "file" then
    path = ""
  end
  local problem = PATHS[kind](path)
  if problem then
    return nil, problem
  end
  return path
end

-- Returns username, password (either may be nil) or false and the problem.
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

local function show(scheme, hosts, path)
  local names = {}
  for i, h in ipairs(hosts) do
    local name = h.host:find(":", 1, true) and "[" .. h.host .. "]" or h.host
    name = name:gsub("%%", "%%25")
    names[i] = h.port == 0 and name or name .. ":" .. ("%d"):format(h.port)
  end
  return scheme .. "://" .. table.concat(names, ",") .. path
end

local function invalid(what)
  return nil, "invalid: " .. what, "invalid"
end

local KNOWN = "redis://host:6379, redis+unix:///socket,"
  .. " redis+sentinel://host1:26379,host2/master,"
  .. " zookeeper://host:2181, file:///directory"

local function parse_authority(authority, rule)
  local info, list = authority:match("^(.*)@([^@]*)$")
  local out, user, password = {}, nil, nil
  if info then
    if rule.hosts == 0 and not rule.auth then
      return nil, "it takes no user name or password"
    end
    user, password = parse_user(info)
    if user == false then
      return nil, password
    end
  end
  list = list or authority
  out.username, out.password = user, password
  if rule.hosts > 0 then
    local problem
    out.hosts, problem = parse_hosts(list, rule.hosts)
    return out.hosts and out, problem
  elseif list ~= "" and list ~= "localhost" then
    return nil, "it names something on this machine: after :// follows an"
      .. " absolute path, as in scheme:///path"
  end
  out.hosts = {}
  return out
end

--- Takes a store's URL apart; no I/O.
---@param s string
---@return table|nil # shown, scheme, module, tls, hosts, path, username,
--- password
---@return string? message
---@return string? code "invalid" or "unsupported"
function url.parse(s)
  if #s > LONGEST then
    return invalid(("the URL is longer than %d bytes"):format(LONGEST))
  end
  local scheme, rest = s:match(SCHEME)
  if not scheme or #scheme > 32 then
    return invalid("this is not a URL of a store; there are " .. KNOWN)
  end
  scheme = text.lower(scheme)
  local rule = SCHEMES[scheme]
  if rule and rule.same then
    scheme, rule = rule.same, SCHEMES[rule.same]
  end
  if not rule then
    local here = ELSEWHERE[scheme]
    return invalid(("no store has the scheme '%s://'; %s %s"):format(scheme,
      here and "with Sentinels write" or "there are", here or KNOWN))
  elseif rule.later then
    return nil, ("unsupported: there is no store for %s:// yet; there are %s")
      :format(scheme, KNOWN), "unsupported"
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
  local authority, raw_path = rest:match("^([^/]*)(.*)$")
  local out, problem = parse_authority(authority, rule)
  if not out then
    return bad(problem)
  end
  out.path, problem = parse_path(rule, raw_path)
  if not out.path then
    return bad(problem)
  end
  out.scheme, out.module, out.tls = scheme, rule.module, rule.tls
  out.shown = show(scheme, out.hosts, out.path)
  return out
end

return url
