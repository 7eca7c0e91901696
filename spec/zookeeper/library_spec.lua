-- What is known to go wrong in and around ZooKeeper's C library. What it does
-- when it is unloaded, and after a fork, stands in engine/unload_spec and
-- engine/fork_spec.

local common = require "spec.zookeeper.common"
local dlock = require "dlock"
local library = require "spec.support.library"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local uv = require "luv"
local zk = require "spec.support.zk"

local PRELUDE = [[
  local dlock = require "dlock"
  local core = require "dlock.core"
  local store = dlock.open { url = arg[1], session_timeout = 2 }
  local key, path = arg[2], arg[3]
]]

-- Counts look-ups, in a file that DLOCK_TEST_LOOKUPS names: a byte for each.
local LOOKUPS = [[
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <unistd.h>

int getaddrinfo(const char *node, const char *service,
                const struct addrinfo *hints, struct addrinfo **res) {
  int (*real)(const char *, const char *, const struct addrinfo *,
              struct addrinfo **);
  *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
  int fd = open(getenv("DLOCK_TEST_LOOKUPS"), O_WRONLY | O_APPEND | O_CREAT,
                0600);
  if (write(fd, "x", 1) != 1)
    abort();
  close(fd);
  return real(node, service, hints, res);
}
]]

-- Lets a process have as many threads at once as the file says that
-- DLOCK_TEST_THREADS names. They are counted as the kernel does: one that was
-- joined counts until it is really gone.
local THREADS = [[
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int running(void) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *d; (d = readdir(tasks));)
    count += d->d_name[0] != '.';
  closedir(tasks);
  return count;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                   void *(*run)(void *), void *arg) {
  int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
  int limit = 0;
  FILE *told = fopen(getenv("DLOCK_TEST_THREADS"), "r");
  if (!told || fscanf(told, "%d", &limit) != 1)
    abort();
  fclose(told);
  return running() < limit ? real(thread, attr, run, arg) : EAGAIN;
}
]]

-- The library's level of logging, which is one for the process.
local LEVEL = [[
#include <stdio.h>
#include <stdlib.h>

extern int logLevel;
void zoo_set_debug_level(int level);

int debug(void *lua) {
  (void)lua;
  zoo_set_debug_level(4);
  return 0;
}

int tell(void *lua) {
  char text[8];
  (void)lua;
  snprintf(text, sizeof text, "%d", logLevel);
  setenv("LEVEL", text, 1);
  return 0;
}
]]

describe("ZooKeeper's library:", function()
  local dir, between, one

  local function set_up()
    dir = server.new_dir()
    between = proxy.start(common.url)
  end
  local function tear_down()
    between:stop()
    common.clean_up()
    if one then one:stop() end
    one = nil
    server.remove_dir(dir)
  end

  local timed = steady(set_up, tear_down)

  local function begin(script, url, more)
    return { script = PRELUDE .. script, stderr = "pipe",
      args = { url or between.url, common.key(), more } }
  end

  -- It has ended well, and nothing of anybody's was printed as an error.
  local function ended(p)
    local status = p:wait()
    assert.are.equal("", p.err)
    assert.are.equal(0, status)
  end

  it("none of its calls that wait is linked", function()
    local seen = 0
    local harmless = { zoo_set_servers_resolution_delay = true,
      zoo_set_debug_level = true, zoo_state = true, zoo_client_id = true,
      zoo_recv_timeout = true, zoo_add_auth = true }
    for _, call in ipairs(library.taken("dlock/store/zookeeper")) do
      if call:find("^zoo_") then
        seen = seen + 1
        assert.is_truthy(harmless[call] or call:find("^zoo_a%l")
          or call:find("_op_init$"), call)
      end
    end
    assert.is_true(seen > 8, seen)
  end)

  -- The library's own close waits for seconds, and crashes in a callback of its
  -- own; ours is in no callback of its.
  timed("a close is bounded while the server hangs, also from a callback, and "
    .. "so is the end of the program", function()
    one = zk.start()
    local admin = common.open { url = one.url }
    for _, ending in ipairs { "callback", "end" } do
      local opts = begin([[
        store = assert(dlock.open { url = arg[1], session_timeout = 10 })
        local lease = assert(store:lock(key))
        if path == "callback" then
          lease:on_lost(function()
            print "lost"
            io.read()
            local start = core.now()
            local ok = store:close()
            local threads = io.open("/proc/self/status"):read("*a")
              :match("Threads:%s+(%d+)")
            -- The library's are still waiting for their server.
            print("closed", ok, core.now() - start < 3, tonumber(threads) > 1)
          end)
        end
        print "held"
        if path == "end" then io.read() else assert(lease:wait_lost(20)) end
        print "over"
      ]], one.url, ending)
      local p = process.spawn(opts)
      p:expect("^held")
      if ending == "callback" then
        assert(admin:break_lock(opts.args[2]))
        p:expect("^lost")
      end
      one:pause()
      p:write("\n")
      if ending == "callback" then p:expect("^closed\ttrue\ttrue\ttrue$") end
      p:expect("^over")
      local before = common.now()
      ended(p)
      assert.is_true(common.now() - before < 3, common.now() - before)
      one:resume()
    end
  end)

  it("an IPv6 address is found, alone and among others", function()
    local both = zk.start { config = { clientPortAddress = "::" } }
    for _, list in ipairs { "[::1]", "[::1]:1,[::1]", "127.0.0.1:1,[::1]" } do
      local where = "zookeeper://" .. list .. ":" .. both.port
      local store = assert(dlock.open(where))
      local lease = assert(store:lock("k", { timeout = 20 }))
      assert(lease:release())
      assert(store:close())
    end
    both:stop()
  end)

  it("names are looked up to connect, not while connected",
    function()
      local opts = begin([[
        store = assert(dlock.open { url = arg[1], session_timeout = 10 })
        local lease = assert(store:lock(key, { timeout = 20 }))
        print "held"
        for _ in io.lines() do
          for _ = 1, 50 do assert(store:mutex(key):locked()) end
          print "looked"
        end
        print(lease:release())
      ]], (between.url:gsub("127.0.0.1", "localhost")))
      opts.env = library.preload(library.build(dir, "lookups", LOOKUPS))
      opts.env.DLOCK_TEST_LOOKUPS = dir .. "/count"
      local p = process.spawn(opts)
      p:expect("^held")
      local function looked_up() return #server.read_file(dir .. "/count") end
      for i = 1, 2 do
        -- Once calls are answered the look-ups to connect are over.
        p:write("\n")
        p:expect("^looked")
        local count = looked_up()
        assert.is_true(count > 0)
        p:write("\n")
        p:expect("^looked")
        assert.are.equal(count, looked_up())
        between:close()
        common.eventually("it is connected again", function()
          return between:stats().connections > i
        end)
      end
      p:close_stdin()
      p:expect("^true$")
      ended(p)
    end)

  it("its log is below DEBUG, whatever it was", function()
    local opts = begin([[
      local tell = assert(package.loadlib(path, "tell"))
      assert(package.loadlib(path, "debug"))()
      assert(assert(store:lock(key)):release())
      tell()
      print(os.getenv("LEVEL"))
      store:close()
    ]], common.url, library.build(dir, "level", LEVEL, { "-lzookeeper_mt" }))
    local p = process.spawn(opts)
    assert.is_true(tonumber(p:read_line()) < 4)
    ended(p)
  end)

  it("it says nothing on standard error when servers come and go",
    function()
      local opts = begin [[
        local dead = dlock.open { url = "zookeeper://127.0.0.1:9", timeout = 1 }
        local nobody = dlock.open { url = "zookeeper://no-such-host.invalid" }
        print((select(3, dead:lock("k"))))
        print((select(3, nobody:lock("k", { timeout = 1 }))))
        local lease = assert(store:lock(key))
        print "held"
        io.read()
        repeat until lease:extend()
        print "extended"
        io.read()
        assert(lease:wait_lost(20))
        assert(assert(store:lock(key, { timeout = 20 })):release())
        print "again"
        dead:close()
        nobody:close()
        store:close()
      ]]
      local p = process.spawn(opts)
      p:expect("^unavailable")
      p:expect("^unavailable")
      p:expect("^held")
      between:reset()
      p:write("\n")
      p:expect("^extended")
      between:hold("both") -- until the session is over
      p:write("\n")
      common.eventually("it expired", function()
        return #common.nodes(opts.args[2] .. "/") == 0
      end, 15)
      between:discard()
      between:close()
      p:expect("^again")
      ended(p)
    end)

  describe("where no more threads can be had", function()
    local limit

    local function may_have(count)
      server.write_file(limit, ("%d"):format(count))
    end

    local function start(script)
      limit = dir .. "/limit"
      local opts = begin(script, common.url, limit)
      opts.env = library.preload(library.build(dir, "threads", THREADS))
      opts.env.DLOCK_TEST_THREADS = limit
      return process.spawn(opts)
    end

    it("a try says so, whichever of them it is", function()
      local said, count = {}, 0
      local line
      repeat
        count = count + 1
        local p = start [[
          io.read()
          local lease, problem, code = store:lock(key, { timeout = 0.3 })
          print(lease and "held" or problem, code)
          store:close()
        ]]
        may_have(count)
        p:write("\n")
        line = assert(p:read_line(20), p.err)
        said[count] = line
        ended(p)
        assert.is_truthy(line:find "^held" or line:find "\tunavailable$", line)
      until line:find "^held" or count == 12
      assert.matches("^held", line)
      assert.matches(": no thread to be had", table.concat(said, "\n"))
    end)

    -- An idle session is replaced by the next lock; the old one's threads end
    -- meanwhile, so it may find some.
    it("a program that had them goes on", function()
      local p = start [[
        local sessions = 0
        store = dlock.open { url = arg[1], session_timeout = 2,
          on_event = function(e)
            if e.message:find "new session" then sessions = sessions + 1 end
          end }
        local function lock(timeout)
          local lease, problem, code = store:lock(key, { timeout = timeout })
          print(lease and "held" or problem, code)
          if lease then lease:release() end
        end
        local function threads()
          return tonumber(io.open("/proc/self/status"):read("*a")
            :match("Threads:%s+(%d+)"))
        end
        io.read()
        lock(5)
        for more = 0, 2 do
          io.read()
          local f = io.open(path, "w")
          f:write(threads() + more)
          f:close()
          lock(0.3)
        end
        io.read()
        lock(20)
        print(sessions)
        store:close()
      ]]
      may_have(20)
      p:write("\n")
      p:expect("^held")
      for _ = 1, 3 do
        uv.sleep(2200) -- for as long as an idle session is not replaced
        p:write("\n")
        local line = assert(p:read_line(20), p.err)
        assert.is_truthy(line:find "^held" or line:find "\tunavailable$", line)
      end
      may_have(20)
      p:write("\n")
      p:expect("^held")
      assert.is_true(tonumber(p:read_line()) > 1)
      ended(p)
    end)
  end)
end)
