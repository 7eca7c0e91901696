-- A resolver that hangs, on Redis: nobody waits for it longer than he said, and
-- neither does the end of a store, of a process, or of a worker of nginx. One
-- that gives several addresses, at one of which nobody answers. And machines
-- whose network has one family of addresses, or none.
local apart = require "spec.support.apart"
local library = require "spec.support.library"
local nginx = require "spec.support.nginx"
local process = require "spec.support.process"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local uv = require "luv"

local URL = assert(os.getenv("DLOCK_TEST_REDIS"), "run `make test`")

-- Names that begin with "hangs" take a minute, with "late" a second. Those
-- with "silent" are 127.0.0.2 at first, where the queue of a socket is full and
-- SYNs are dropped; then another one comes behind that, or, of "silent-turned",
-- before that, with one behind that refuses. The others are looked up. A
-- process that connects to 127.0.0.2 for a second time, looked up as
-- "silent-once", ends.
local RESOLVER = [[
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void fill(const struct addrinfo *a) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 0) != 0)
    _exit(99);
  for (int i = 0; i < 4; i++) {
    int one = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    (void)connect(one, a->ai_addr, a->ai_addrlen);
  }
}

int do_fork(void *lua) {
  (void)lua;
  if (fork() == 0)
    setenv("FORKED", "1", 1);
  return 0;
}

int do_wait(void *lua) {
  (void)lua;
  while (wait(NULL) > 0)
    ;
  return 0;
}

static int once, connected;

int connect(int fd, const struct sockaddr *addr, socklen_t len) {
  int (*next)(int, const struct sockaddr *, socklen_t);
  const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
  if (once && addr->sa_family == AF_INET &&
      in->sin_addr.s_addr == inet_addr("127.0.0.2") && connected++ > 0)
    _exit(98);
  *(void **)&next = dlsym(RTLD_NEXT, "connect");
  return next(fd, addr, len);
}

int getaddrinfo(const char *host, const char *port,
                const struct addrinfo *hints, struct addrinfo **found) {
  int (*next)(const char *, const char *, const struct addrinfo *,
              struct addrinfo **);
  if (host && strncmp(host, "hangs", 5) == 0) {
    sleep(60);
    return EAI_AGAIN;
  }
  *(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
  if (host && strncmp(host, "late", 4) == 0) {
    sleep(1);
    return next("127.0.0.1", port, hints, found);
  }
  if (host && strncmp(host, "silent", 6) == 0) {
    static const char *const lists[][4] = {{"127.0.0.2"},
      {"127.0.0.2", "127.0.0.1"}, {"127.0.0.1", "127.0.0.2", "127.0.0.3"}};
    static int asked;
    int rc = 0, list = asked++ == 0 ? 0 : strstr(host, "turned") ? 2 : 1;
    for (int i = 0; rc == 0 && lists[list][i]; i++) {
      rc = next(lists[list][i], port, hints, found);
      if (rc == 0 && list == 0)
        fill(*found);
      found = &(*found)->ai_next;
    }
    once = strstr(host, "once") != NULL;
    return rc;
  }
  return next(host, port, hints, found);
}
]]

describe("a resolver that hangs", function()
  local dir, path
  local timed = steady()

  setup(function()
    dir = server.new_dir()
    path = library.build(dir, "resolver", "#define _GNU_SOURCE\n" .. RESOLVER)
  end)

  teardown(function() server.remove_dir(dir) end)

  after_each(function() process.close_all() end)

  -- Lines that the program prints; it has to end well before the resolver does.
  local function run(program)
    local file = dir .. "/program.lua"
    server.write_file(file, ([[
      local dlock = require "dlock"
      local url, preloaded = %q, %q
      local function hanging(opts)
        opts.url = ("redis://hangs%%s.example:6379"):format(opts.url or "")
        opts.connect_timeout, opts.io_timeout = 0.2, 0.2
        return assert(dlock.open(opts))
      end
      local function named(name)
        return (url:gsub("127.0.0.1", name))
      end
      local function threads()
        for line in io.lines("/proc/self/status") do
          local count = line:match("^Threads:%%s*(%%d+)")
          if count then return tonumber(count) end
        end
      end
    ]]):format(URL, path) .. program)
    local status, out, err = process.run { file = file, timeout = 30,
      env = library.preload(path) }
    -- The leak checker misses its parent's threads in a fork's child.
    assert.equal("", (err:gsub("==%d+==Running thread [^\n]*\n", "")))
    assert.equal(0, status)
    return out
  end

  it("keeps no caller, no close and no process", function()
    assert.equal("unavailable unavailable true\n", run [[
      local store = hanging {}
      local _, _, first = store:try_lock("k")
      local _, _, second = store:ping(0.2)
      print(first .. " " .. second .. " " .. tostring(store:close(5)))
    ]])
  end)

  it("keeps no process that does not close its store", function()
    assert.equal("unavailable\n", run [[
      store = hanging {}
      print((select(3, store:try_lock("k"))))
    ]])
  end)

  it("does not keep names from being found", function()
    assert.equal("unavailable true\n", run [[
      local one = hanging {}
      print((select(3, one:try_lock("k"))) .. " "
        .. tostring(assert(dlock.open(named "localhost"))
        :lock("resolved"):release()))
    ]])
  end)

  it("is asked by few threads at a time", function()
    assert.equal("unavailable true\n", run [[
      local stores, code = {}, nil
      for i = 1, 20 do
        stores[i] = hanging { url = i }
        _, _, code = stores[i]:try_lock("k")
      end
      print(code .. " " .. tostring(threads() < 40)) -- one a store, and 16
    ]])
  end)

  timed("takes longer than an attempt to connect, which says so", function()
    assert.equal("unavailable true\ntrue\n", run [[
      local function late(connect_timeout)
        return assert(dlock.open { url = named "late.example",
          connect_timeout = connect_timeout })
      end
      local _, err, code = late(0.3):try_lock("late")
      print(code .. " "
        .. tostring(err:find("name of its host was not resolved in time", 1,
          true) ~= nil))
      print(late(20):lock("late", { timeout = 20 }):release())
    ]])
  end)

  timed("takes longer than each attempt: the next one waits for its answer",
  function()
    assert.equal("true\n", run [[
      local store = assert(dlock.open { url = named "late.example",
        connect_timeout = 0.3 })
      print(assert(store:lock("late", { timeout = 20 })):release())
    ]])
  end)

  timed("takes longer than each attempt: the next one waits for its answer",
  function()
    assert.equal("true\n", run [[
      local store = assert(dlock.open { url = named "late.example",
        connect_timeout = 0.4 })
      print(assert(store:lock("late", { timeout = 20 })):release())
    ]])
  end)

  -- ThreadSanitizer follows no child of a process that has threads.
  local fork_it = os.getenv("DLOCK_TEST_SANITIZER") ~= "tsan" and it
    or function() end
  fork_it("keeps no child of a fork from asking", function()
    assert.equal("true\ntrue\n", run [[
      for i = 1, 15 do hanging { url = i }:try_lock("k") end
      assert(dlock.open { url = named "late.example", connect_timeout = 0.1 })
        :try_lock("k")
      assert(package.loadlib(preloaded, "do_fork"))()
      if os.getenv("FORKED") then
        for _, name in ipairs { "localhost", "late.example" } do
          local store = assert(dlock.open(named(name)))
          print(store:lock("resolved", { timeout = 4 }):release())
        end
      end
      assert(package.loadlib(preloaded, "do_wait"))()
    ]])
  end)

  it("gives an address that drops packets: the others have their turn",
  function()
    for _, name in ipairs { "silent", "silent-turned" } do
      assert.equal("true\n", run(([[
        local store = assert(dlock.open {
          url = named "%s.example",
          connect_timeout = 0.3, io_timeout = 30 })
        local lease
        for _ = 1, 5 do lease = lease or store:try_lock("silent") end
        print(lease and lease:release())
      ]]):format(name)))
    end
  end)

  -- It gives up before connect_timeout is over.
  it("gives an address that the system gives up: it is not tried again",
  function()
    assert.equal("unavailable true\n", run [[
      local store = assert(dlock.open {
        url = named "silent-once.example",
        connect_timeout = 20, io_timeout = 0.3 })
      local _, _, code = store:try_lock("silent")
      local lease
      for _ = 1, 50 do lease = lease or store:try_lock("silent") end
      print(code .. " " .. tostring(lease and lease:release()))
    ]])
  end)

  if rawget(_G, "jit") then
    it("keeps no worker of nginx that was reloaded", function()
      for name, value in pairs(library.preload(path)) do
        uv.os_setenv(name, value)
      end
      local n = nginx.start { http = [[
        init_by_lua_block {
          store = assert(require("dlock").open("redis://hangs.example:6379"))
        }
      ]], server = [[
        location = /try { content_by_lua_block {
          ngx.print((select(3, store:try_lock("k"))))
        } }
      ]] }
      uv.os_unsetenv("LD_PRELOAD")
      local _, body = n:get("/try")
      local old = n:reload()
      local gone = n:wait_gone(old, 15)
      n:stop()
      assert.equal("unavailable", body)
      assert.is_truthy(gone, "the worker waits for the resolver")
    end)
  end
end)

-- A network of our own, where the server listens on one loopback address, and
-- what the machine has beside that (nothing, or an address of one family) is
-- what AI_ADDRCONFIG would go by. Nobody answers for names but /etc/hosts.
describe("a machine with one family of addresses", function()
  local dir, path

  setup(function()
    dir = server.new_dir()
    path = library.build(dir, "no_resolver", [[
      #include <unistd.h>
      int getaddrinfo(void) { _exit(97); }
    ]])
    server.write_file(dir .. "/hosts", "127.0.0.1 localhost half\n"
      .. "::1 localhost\n2001:db8::1 half\n")
  end)

  teardown(function() server.remove_dir(dir) end)

  local SCRIPT = [[
    local store = assert(require("dlock").open(%q))
    print(assert(assert(store:lock("family", { timeout = %s })):release()))
  ]]

  -- What a program in that network prints that takes a lock. preload: for it
  -- alone.
  local function try(bind, has, url, timeout, preload)
    preload = preload or os.getenv("DLOCK_TEST_RUNTIME") or ""
    local command = apart("--net --pid --mount", ([[
      ip link set lo up
      for address in %s; do ip addr add $address dev lo; done
      mount --bind %s/hosts /etc/hosts
      redis-server --port 7000 --bind %s --save "" --daemonize yes \
        --dir %s >%s/log
      export LD_PRELOAD='%s'
    ]]):format(has, dir, bind, dir, dir, preload))
    for _, word in ipairs { process.lua, "-e",
        SCRIPT:format(url, timeout or 10) } do
      command[#command + 1] = word
    end
    local status, out, err = process.run { command = command, timeout = 60 }
    return status == 0 and out or ("%s: %s%s"):format(status, out, err)
  end

  for bind, has in pairs { ["127.0.0.1"] = "fd00::5/128",
      ["::1"] = "10.9.8.7/32" } do
    it("reaches localhost at " .. bind, function()
      assert.are.equal("true\n", try(bind, has, "redis://localhost:7000"))
      assert.are.equal("true\n", try(bind, "", "redis://localhost:7000"))
    end)
  end

  it("tells what the address said that can be reached", function()
    assert.matches("half:7001: Connection refused",
      (try("127.0.0.1", "", "redis://half:7001", 1)))
  end)

  it("asks no resolver for an address", function()
    for bind, host in pairs { ["127.0.0.1"] = "127.0.0.1", ["::1"] = "[::1]" }
    do
      assert.are.equal("true\n", try(bind, "", "redis://" .. host .. ":7000",
        10, library.preload(path).LD_PRELOAD))
    end
  end)
end)
