-- What the system answers to connect: what is refused, or cannot work whoever
-- waits, is no outage, and is not tried again.

local library = require "spec.support.library"
local process = require "spec.support.process"
local server = require "spec.support.server"

-- connect to a Unix socket, or to port 1, fails as the file $DLOCK_PLAN says.
local SHIM = [[
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int connect(int fd, const struct sockaddr *to, socklen_t len) {
  int (*next)(int, const struct sockaddr *, socklen_t);
  *(void **)&next = dlsym(RTLD_NEXT, "connect");
  const struct sockaddr_in *in = (const struct sockaddr_in *)to;
  if (to->sa_family != AF_UNIX &&
      (to->sa_family != AF_INET || in->sin_port != htons(1)))
    return next(fd, to, len);
  char plan[16] = "";
  int file = open(getenv("DLOCK_PLAN"), O_RDONLY | O_CLOEXEC);
  if (read(file, plan, sizeof plan - 1) <= 0)
    abort();
  close(file);
  errno = atoi(plan);
  return -1;
}
]]

local SCRIPT = [=[
  local dlock, uv = require "dlock", require "luv"
  local here = assert(dlock.open("file://" .. arg[1] .. "/locks"))
  for line in io.lines() do
    local number, code, url = line:match "^(%d+) (%a+) (.*)"
    -- What nobody can mend is said at once, whatever the time. (ZooKeeper's
    -- library is given half a second first.)
    local short = url:find "^zoo" and 1 or 0.3
    local long = code == "unavailable" and 2 * short or 10
    local plan = assert(io.open(os.getenv "DLOCK_PLAN", "w"))
    plan:write(number)
    plan:close()
    local store = assert(dlock.open { url = url, io_timeout = short })
    local _, message, try = store:try_lock("k")
    local start = uv.hrtime()
    local _, _, wait = store:lock("k", { timeout = long })
    local soon = uv.hrtime() - start < 0.97e9 * long
    local lease = dlock.fallback({ store:mutex("f"), here:mutex("f"),
      grace = 0 }):acquire { timeout = long }
    print(try, wait, soon, lease and lease.degraded or false, message)
    if lease then lease:release() end
    store:close()
  end
]=]

local ERRORS = {
  { 13, "denied", "ermission" }, { 1, "denied", "not permitted" },
  { 20, "invalid", "Not a directory" }, { 40, "invalid", "symbolic links" },
  { 91, "invalid", "wrong type" }, { 2, "unavailable", "No such file" },
  { 111, "unavailable", "refused" }, { 101, "unavailable", "unreachable" },
  { 24, "unavailable", "open files" }, { 12, "unavailable", "memory" },
}
-- Its library tells no errno; what is denied is asked for beside it.
local TOLD = { { 13, "denied", "ermission" }, { 1, "denied", "not permitted" },
  { 111, "unavailable", "quorum" }, { 101, "unavailable", "quorum" } }
local OTHERS = { { 13, "denied", "ermission" },
  { 1, "denied", "not permitted" },
  { 111, "unavailable", "127.0.0.1:1: Connection refused" },
  { 101, "unavailable", "127.0.0.1:1: Network is unreachable" } }

local URLS = { ["redis+unix:///run/none"] = ERRORS,
  ["redis://127.0.0.1:1"] = ERRORS, ["zookeeper://127.0.0.1:1"] = TOLD,
  ["zookeeper://127.0.0.1:1,127.0.0.2:1/app"] = TOLD,
  ["etcd://127.0.0.1:1"] = OTHERS, ["consul://127.0.0.1:1"] = OTHERS }

describe("connecting", function()
  local dir

  setup(function() dir = server.new_dir() end)

  teardown(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  for url, errors in pairs(URLS) do
    it("says what the system answers at " .. url, function()
      local env = library.preload(library.build(dir, "shim", SHIM))
      env.DLOCK_PLAN = dir .. "/plan"
      local p = process.spawn { args = { dir }, script = SCRIPT, env = env }
      for _, e in ipairs(errors) do
        p:write(("%d %s %s\n"):format(e[1], e[2], url))
        local line, out = p:read_line(), e[2] == "unavailable"
        local want = ("%s\t%s\t%s\t%s\t"):format(e[2], e[2], tostring(not out),
          tostring(out))
        assert.are.equal(want, line and line:sub(1, #want))
        assert.is_truthy(line:find(e[3]), line)
      end
    end)
  end
end)
