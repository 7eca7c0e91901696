-- A TCP proxy that a spec puts before a real server to make the network
-- misbehave at an exact moment: cut after a request was forwarded, hold answers
-- back, delay, drop, trickle, reset. Every call returns after the proxy did it.
-- "up" is from client to server, "down" back; "both" is allowed too.
--
--   local p = proxy.start(os.getenv "DLOCK_TEST_REDIS")
--   dlock.open(p.url); p:cut_after("EXEC"); …; p:stop()
--
-- Most calls take opts.sent: only connections that have sent this string (in
-- any case), for example { sent = "SUBSCRIBE" }.

local process = require "spec.support.process"
local server = require "spec.support.server"
local control = require "spec.support.control"

local proxy = {}
proxy.__index = proxy

local function command(self, timeout, ...)
  return control.command(self.process, timeout, ...)
end

local function sent(opts)
  return opts and opts.sent or ""
end

--- Starts a proxy to `target`: a URL with one address, or "host:port".
--- It has port, address ("127.0.0.1:port") and url (target through the proxy).
function proxy.start(target)
  local address = target:match("(%d+%.%d+%.%d+%.%d+:%d+)")
  assert(address, "no address in " .. target)
  local file = debug.getinfo(1, "S").source:match("^@(.*)%.lua$")
  local self = setmetatable({ port = server.free_port() }, proxy)
  self.address = "127.0.0.1:" .. self.port
  local at, to = target:find(address, 1, true)
  self.url = target:sub(1, at - 1) .. self.address .. target:sub(to + 1)
  self.process = process.spawn {
    file = file .. "_main.lua",
    args = { self.port, address },
    tested = false,
  }
  self.process:expect("^ready$")
  return self
end

--- Holds bytes (and ends of connections) back until release or discard.
function proxy:hold(way, opts)
  command(self, nil, "hold", way, sent(opts))
end

--- Sends on what was held; nothing is held any more.
function proxy:release(way)
  command(self, nil, "clear", way or "both", "hold")
end

--- Throws away what was held; nothing is held any more.
function proxy:discard(way)
  command(self, nil, "discard", way or "both")
end

--- Delays all that comes from now on by `seconds` (0: no more).
function proxy:delay(way, seconds, opts)
  command(self, nil, "delay", way, sent(opts),
    math.floor(seconds * 1000 + 0.5))
end

--- Sends `bytes` at a time, about every millisecond (nil: whole again).
function proxy:trickle(way, bytes, opts)
  if bytes then
    command(self, nil, "trickle", way, sent(opts), bytes)
  else
    command(self, nil, "clear", way, "trickle")
  end
end

--- Swallows the next `count` bytes.
function proxy:drop(way, count, opts)
  command(self, nil, "drop", way, sent(opts), count)
end

--- Swallows the next `count` messages (RESP or ZooKeeper) that contain `text`
--- ("" for any).
function proxy:drop_messages(way, count, text, opts)
  command(self, nil, "drop", way, sent(opts), count, text)
end

--- Closes the connections (FIN both ways); returns how many.
function proxy:close(opts)
  return tonumber(command(self, nil, "close", sent(opts)))
end

--- Resets the connections (RST both ways); returns how many.
function proxy:reset(opts)
  return tonumber(command(self, nil, "reset", sent(opts)))
end

--- When a request containing `text` comes: forwards it, waits for the server's
--- next reply, swallows that and closes. Once; opts.skip = n lets n pass first;
--- opts.now = true closes right after forwarding.
function proxy:cut_after(text, opts)
  local when = opts and opts.now and "now" or "after"
  command(self, nil, "cut", when, text, opts and opts.skip or 0)
end

--- The same, but the request is not forwarded.
function proxy:cut_before(text, opts)
  command(self, nil, "cut", "before", text, opts and opts.skip or 0)
end

--- The same, but only the first `bytes` of what came with it are forwarded; the
--- server has them when the connection ends.
function proxy:cut_at(text, bytes)
  command(self, nil, "cut", "at", text, 0, bytes)
end

--- true: new connections are refused; false: accepted again.
function proxy:refuse(on)
  command(self, nil, "refuse", on and "yes" or "no")
end

--- Leads the next connections to another server ("host:port"): so many, or all
--- that come (nil). Those that stand stay where they are.
function proxy:lead(address, count)
  command(self, nil, "lead", address, count or -1)
end

--- How often `text` was sent so far ("up" unless told otherwise). Counts what
--- reached the proxy, held and dropped bytes included.
function proxy:count(text, way)
  return tonumber(command(self, nil, "count", way or "up", text))
end

--- Waits until `text` was sent `count` (1) times in all; the count, or nil,
--- "timeout".
function proxy:wait_for(text, opts)
  opts = opts or {}
  local timeout = opts.timeout or 10
  local count = tonumber(command(self, timeout + 5, "wait", opts.way or "up",
    text, opts.count or 1, math.floor(timeout * 1000)))
  if count < 0 then
    return nil, "timeout"
  end
  return count
end

--- { open =, connections =, up =, down =, ended = }: open now, made so far,
--- bytes; and how many of the open ones the server has ended.
function proxy:stats()
  local line = command(self, nil, "stats")
  local open, connections, up, down, ended =
    line:match("(%d+) (%d+) (%d+) (%d+) (%d+)")
  return {
    open = tonumber(open), connections = tonumber(connections),
    up = tonumber(up), down = tonumber(down), ended = tonumber(ended),
  }
end

--- Ends the proxy and with it all connections.
function proxy:stop()
  self.process:close()
end

return proxy
