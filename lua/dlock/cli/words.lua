-- Every verb and option of the command: the parser (args), the help, man page
-- and completion (.ci/pages) come from this table.
--
-- An option:
--   name, takes  "--ttl", and its value's name; a flag has none
--   kind  how the value is read (values) and completed
--   limit  the library's option with its range
--   open  the option of dlock.open that it sets (tls: in `tls`), also in
--         dlock.conf
--   instead  other options for the same thing
-- A verb:
--   name, usage  the text behind it
--   words  least and greatest number of words
--   command  a command stands behind `--`
--   options  names without dashes
--   complete  how its words are completed
--   help, more  one sentence; paragraphs
local words = {}

words.options = {
  { name = "--url", takes = "URL", kind = "url", open = "url",
    help = "the store, as in redis://host or file:///directory" },
  { name = "--db", takes = "NUMBER", kind = "number", limit = "db",
    open = "db", help = "the database, where the URL has no place for it" },
  { name = "--prefix", takes = "PREFIX", open = "prefix",
    help = "what the store puts before each key" },
  { name = "--username", takes = "NAME", open = "username",
    help = "the user to log in as" },
  { name = "--password-file", takes = "FILE", kind = "file",
    open = "password_file", help = "its first line is the password" },
  { name = "--name", takes = "NAME", open = "name",
    help = "who we are to others (host/pid)" },
  { name = "--ca", takes = "FILE", kind = "file", open = "cafile", tls = true,
    help = "certificates that TLS trusts" },
  { name = "--capath", takes = "DIRECTORY", kind = "directory",
    open = "capath", tls = true, help = "a directory of such certificates" },
  { name = "--cert", takes = "FILE", kind = "file", open = "cert", tls = true,
    help = "our certificate" },
  { name = "--key", takes = "FILE", kind = "file", open = "key", tls = true,
    help = "its private key" },
  { name = "--key-password-file", takes = "FILE", kind = "file",
    open = "key_password_file", tls = true,
    help = "its first line is the password of that key" },
  { name = "--server-name", takes = "NAME", open = "server_name", tls = true,
    help = "the name that the server's certificate must have" },
  { name = "--verify", takes = "yes or no", kind = "boolean", open = "verify",
    tls = true, help = "whether the server's certificate is checked (yes)" },
  { name = "--min-version", takes = "1.2 or 1.3", open = "min_version",
    tls = true, help = "the lowest version of TLS (1.2)" },
  { name = "--ciphers", takes = "LIST", open = "ciphers", tls = true,
    help = "the ciphers of TLS 1.2, as OpenSSL names them" },
  { name = "--ciphersuites", takes = "LIST", open = "ciphersuites",
    tls = true, help = "those of TLS 1.3" },
  { name = "--sentinel-username", takes = "NAME", open = "sentinel_username",
    help = "the user of the Sentinels" },
  { name = "--sentinel-password-file", takes = "FILE", kind = "file",
    open = "sentinel_password_file",
    help = "the first line is the Sentinels' password" },
  { name = "--wait-replicas", takes = "NUMBER", kind = "replicas",
    limit = "wait_replicas", open = "wait_replicas",
    help = "how many replicas of Redis must have a lock" },
  { name = "--wait-timeout", takes = "DURATION", kind = "duration",
    limit = "wait_timeout", open = "wait_timeout",
    help = "how long these may take (0.5)" },
  { name = "--node-timeout", takes = "DURATION", kind = "duration",
    limit = "node_timeout", open = "node_timeout",
    help = "how long a server's vote for a Redlock may take (0.25)" },
  { name = "--nodes", takes = "URL[,URL...]", kind = "nodes", open = "nodes",
    help = "the servers of a Redlock, in place of --url" },
  { name = "--max-ttl", takes = "DURATION", kind = "duration",
    limit = "max_ttl", open = "max_ttl",
    help = "of a Redlock; a restarted server votes after it (60)" },
  { name = "--address-map", takes = "FROM=TO[,FROM=TO...]", kind = "map",
    open = "address_map", help = "which address to use for another one" },
  { name = "--session-timeout", takes = "DURATION", kind = "duration",
    limit = "session_timeout", open = "session_timeout",
    help = "when a dead holder's session ends (10)" },
  { name = "--acl", takes = "creator or open", open = "acl",
    help = "who may change what we make in ZooKeeper" },
  { name = "--sasl", takes = "yes or no", kind = "boolean", open = "sasl",
    help = "whether to log in to ZooKeeper by SASL" },
  { name = "--schema", takes = "NAME", open = "schema",
    help = "the schema of dlock's tables in PostgreSQL (dlock)" },
  { name = "--tables", takes = "NAME", open = "tables",
    help = "how the names of dlock's tables in MySQL begin (dlock_)" },
  { name = "--listen", takes = "URL or off", kind = "listen", open = "listen",
    help = "where PostgreSQL wakes us, past a pooler" },
  { name = "--connect-timeout", takes = "DURATION", kind = "duration",
    limit = "connect_timeout", open = "connect_timeout",
    help = "how long a connection may take (3)" },
  { name = "--io-timeout", takes = "DURATION", kind = "duration",
    limit = "io_timeout", open = "io_timeout",
    help = "how long an answer may take (2)" },
  { name = "--fence-memory", takes = "DURATION", kind = "duration",
    limit = "fence_memory", open = "fence_memory",
    help = "how long Redis keeps the fence of a free key (600)" },
  { name = "--ttl", takes = "DURATION", kind = "duration", limit = "ttl",
    open = "ttl", help = "how long the lock outlives a killed dlock (30s)" },
  { name = "--timeout", takes = "DURATION or inf", kind = "patience",
    limit = "timeout", open = "timeout",
    help = "how long to wait for the lock (inf)" },
  { name = "-n", instead = "timeout", help = "do not wait, as --timeout 0" },
  { name = "-E", takes = "STATUS from 0 to 255", kind = "status",
    help = "the exit status instead of 75" },
  { name = "--shared", instead = "permits", help = "one of many readers" },
  { name = "--permits", takes = "N/M, as in 1/3", kind = "permits",
    help = "N of the M permits of a semaphore" },
  { name = "--min-hold", takes = "DURATION", kind = "duration",
    limit = "min_hold",
    help = "how long the key stays held at least, also after the command" },
  { name = "--max-hold", takes = "DURATION", kind = "duration",
    limit = "max_hold", help = "when the lock ends although the command runs" },
  { name = "--once-per", takes = "DURATION", kind = "duration",
    limit = "min_hold",
    instead = "min-hold max-hold shared permits timeout value",
    help = "at most one successful run in each period, of all machines" },
  { name = "--all-gone",
    help = "hold the lock until all that the command has left behind ended" },
  { name = "--value", takes = "TEXT", help = "what others see of our hold" },
  { name = "-c", takes = "'SHELL WORDS'",
    help = "run this by sh, instead of a COMMAND" },
  { name = "-v", help = "say what is waited for, also without a terminal" },
  { name = "--json", help = "print JSON" },
  { name = "--prometheus", instead = "json",
    help = "print metrics for Prometheus" },
  { name = "-h", help = "show help, and do nothing else" },
  { name = "--help", help = "the same" },
  { name = "--version", help = "show the version" },
}

local ACQUIRE = "ttl timeout n E shared permits value v"

words.verbs = {
  { name = "run", usage = "KEY [KEY...] -- COMMAND [ARG...]",
    words = { 1, math.huge }, command = true, complete = "key",
    options = ACQUIRE .. " min-hold max-hold once-per all-gone c",
    help = "run a command under a lock, or under several at once",
    more = [[
The command gets DLOCK_KEY and DLOCK_FENCE in its environment, one line for
each key. When the lock is lost, its process group gets SIGTERM, and SIGKILL
ten seconds later.]] },
  { name = "elect", usage = "KEY -- COMMAND [ARG...]", words = { 1, 1 },
    command = true, complete = "key",
    options = "ttl timeout n E value v max-hold all-gone c",
    help = "run a command once this process leads",
    more = [[
The others wait. When the leader's command ends, the next one leads.]] },
  { name = "leader", usage = "KEY", words = { 1, 1 }, complete = "key",
    options = "json", help = "print who leads",
    more = [[
The line is the leader's value, or its name when it has none. The status is 1
when nobody leads.]] },
  { name = "acquire", usage = "KEY", words = { 1, 1 }, complete = "key",
    options = ACQUIRE .. " json",
    help = "take a lock, and print a handle of it",
    more = [[
The lock outlives dlock: it ends with its --ttl, unless it is extended. The
store must have portable leases (Redis, etcd, PostgreSQL, MySQL).]] },
  { name = "release", usage = "[HANDLE | -]", words = { 0, 1 },
    options = "", help = "give back what acquire took",
    more = [[
The handle is the word, a line of standard input (-), or $DLOCK_HANDLE. Nothing
is printed: the status is 0 when it was released.]] },
  { name = "extend", usage = "[HANDLE | -]", words = { 0, 1 },
    options = "ttl", help = "have the lock of a handle last for --ttl from now",
    more = [[
Without --ttl it is the time that acquire had. An extension never takes time
away. The handle stays the same. Nothing is printed: the status is 0 when the
lock was extended.]] },
  { name = "held-by", usage = "[HANDLE | -]", words = { 0, 1 },
    options = "json", help = "say whether a handle still holds its lock",
    more = [[
The status is 0 when it does, else 1.]] },
  { name = "held", usage = "KEY", words = { 1, 1 }, complete = "key",
    options = "json", help = "say whether a key is held",
    more = [[
The status is 0 when it is held, 1 when it is free.]] },
  { name = "show", usage = "KEY", words = { 1, 1 }, complete = "key",
    options = "json", help = "print who holds a key and who waits for it" },
  { name = "ls", usage = "[PREFIX]", words = { 0, 1 }, complete = "key",
    options = "json",
    help = "print keys in use, with mode, holder and age" },
  { name = "watch", usage = "[KEY]", words = { 0, 1 }, complete = "key",
    options = "json", help = "print each change of holder, of one key or all",
    more = [[
In a terminal, without a KEY, it is a table of all keys. A signal ends it.]] },
  { name = "stats", usage = "[PREFIX]", words = { 0, 1 }, complete = "key",
    options = "json prometheus", help = "count keys, holders and waiters" },
  { name = "break", usage = "KEY", words = { 1, 1 }, complete = "key",
    options = "", help = "take a key away from whoever holds it",
    more = [[
Nothing is printed: the status is 0 when nobody holds it any more.]] },
  { name = "revoke", usage = "KEY", words = { 1, 1 }, complete = "key",
    options = "", help = "ask the holder of a key to release it",
    more = [[
Nothing is printed: the status is 0 when the holder is asked.]] },
  { name = "ping", usage = "", words = { 0, 0 }, options = "json",
    help = "print the round trip to the store" },
  { name = "schema", usage = "STORE", words = { 1, 1 }, options = "",
    help = "print the SQL that makes the tables of a store: postgres, mysql",
    more = [[
It is for an administrator, as in dlock schema postgres | psql DATABASE or
dlock schema mysql | mysql DATABASE. A user that may create a schema, or tables
and procedures, needs no such thing. --schema and --tables give other names.
]] },
  { name = "config", usage = "", words = { 0, 0 },
    options = "json ttl timeout",
    help = "print the settings that count, and where each stands" },
}

words.statuses = {
  { "the command's", "it ran; 126: it cannot be run, 127: there is none" },
  { "64", "dlock was called wrongly, and nothing was done" },
  { "69", "the store is unavailable" },
  { "70", "the lock was lost while the command ran" },
  { "74", "what dlock prints cannot be written" },
  { "75 or -E", "the lock could not be had, or the period's run is done" },
  { "77", "the store refused us" },
  { "128 + n", "signal n came while dlock waited: 130 is Ctrl-C" },
}

function words.field(option)
  return (option.name:gsub("^%-+", ""))
end

local by_name, verbs = {}, {}
for _, option in ipairs(words.options) do by_name[option.name] = option end
for _, verb in ipairs(words.verbs) do verbs[verb.name] = verb end

--- By names with and without dashes.
words.option = by_name
words.verb = verbs

--- An option by its name without dashes.
function words.named(field)
  return by_name["--" .. field] or by_name["-" .. field]
end

local GENERAL = { h = true, help = true, version = true }

--- Whether an option belongs to a verb. Options of the store, and general ones,
--- belong to all.
function words.belongs(option, verb)
  local field = words.field(option)
  if GENERAL[field] then
    return true
  elseif option.open and field ~= "ttl" and field ~= "timeout" then
    return true
  end
  return (" " .. verb.options .. " "):find(" " .. field .. " ", 1, true) ~= nil
end

return words
