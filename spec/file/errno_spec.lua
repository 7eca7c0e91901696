-- What the system answers to the file store's calls, one after the other: what
-- is refused, or cannot work whoever waits, is no outage.

local library = require "spec.support.library"
local process = require "spec.support.process"
local server = require "spec.support.server"

-- The file $DLOCK_PLAN has two lines, the lock directory and "call errno": that
-- call fails so, where it is about the directory or what is in it. (Threads
-- would read an environment while it is written.)
local SHIM = [[
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

struct plan {
  char dir[4096], call[16];
  int number;
};

/* By system calls alone: what is failed here is called by others. */
static struct plan planned(void) {
  struct plan plan = {"nowhere", "", 0};
  char text[4200] = "";
  int before = errno;
  long fd = syscall(SYS_openat, AT_FDCWD, getenv("DLOCK_PLAN"), O_RDONLY);
  if (fd >= 0) {
    syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    sscanf(text, "%4095[^\n]\n%15s %d", plan.dir, plan.call, &plan.number);
  }
  errno = before;
  return plan;
}

static int fails(const char *call) {
  struct plan plan = planned();
  if (strcmp(plan.call, call) != 0)
    return 0;
  errno = plan.number;
  return 1;
}

static int is_dir(const char *path) {
  return strcmp(path, planned().dir) == 0;
}

static int ours(int fd) {
  char link[64], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  int before = errno;
  syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
  errno = before;
  struct plan plan = planned();
  return strncmp(path, plan.dir, strlen(plan.dir)) == 0;
}

#define NEXT(type, name, ...)                                                  \
  type (*next)(__VA_ARGS__) = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

int openat64(int dir, const char *name, int flags, ...) {
  NEXT(int, "openat64", int, const char *, int, ...);
  va_list ap;
  va_start(ap, flags);
  mode_t mode = va_arg(ap, mode_t);
  va_end(ap);
  const char *call = flags & O_CREAT     ? "create"
                     : dir == AT_FDCWD   ? "opendir"
                     : name[1] == 'w'    ? "pipe"
                                         : "open";
  if (fails(call) && (dir == AT_FDCWD ? is_dir(name) : ours(dir)))
    return -1;
  return next(dir, name, flags, mode);
}

int open64(const char *name, int flags, ...) {
  NEXT(int, "open64", const char *, int, ...);
  va_list ap;
  va_start(ap, flags);
  mode_t mode = va_arg(ap, mode_t);
  va_end(ap);
  if (strstr(name, "boot_id") && fails("boot"))
    return -1;
  return next(name, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
  NEXT(int, "mkdir", const char *, mode_t);
  if (is_dir(path) && fails("mkdir"))
    return -1;
  return next(path, mode);
}

int mkfifoat(int dir, const char *path, mode_t mode) {
  NEXT(int, "mkfifoat", int, const char *, mode_t);
  return fails("mkfifo") && ours(dir) ? -1 : next(dir, path, mode);
}

int fstatat64(int dir, const char *path, struct stat64 *out, int flags) {
  NEXT(int, "fstatat64", int, const char *, struct stat64 *, int);
  if (fails("fstatat") && ours(dir))
    return -1;
  return next(dir, path, out, flags);
}

int fstat64(int fd, struct stat64 *out) {
  NEXT(int, "fstat64", int, struct stat64 *);
  if (fails("fstat") && ours(fd))
    return -1;
  return next(fd, out);
}

int fstatfs64(int fd, struct statfs64 *out) {
  NEXT(int, "fstatfs64", int, struct statfs64 *);
  if (fails("fstatfs") && ours(fd))
    return -1;
  int error = next(fd, out);
  if (fails("fstype"))
    out->f_type = errno;
  return error;
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
  NEXT(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
  if (fails("write") && ours(fd))
    return -1;
  return next(fd, data, n, at);
}
]]

-- Says of each plan what the calls of a store answer, and what stands in for it
-- when it is out. The other store has what it needs by then.
local SCRIPT = [=[
  local dlock, uv = require "dlock", require "luv"
  local base, opts = arg[1], { connect_timeout = 1, io_timeout = 1 }
  local other = assert(dlock.open("file://" .. base .. "/other"))
  assert(other:ping())
  local function code(lease, _, failure)
    return lease and "ok" or failure
  end
  local function plan(dir, line)
    local file = assert(io.open(base .. "/new", "w"))
    file:write(dir, "\n", line, "\n")
    file:close()
    assert(os.rename(base .. "/new", os.getenv "DLOCK_PLAN"))
  end
  for line in io.lines() do
    local call = line:match "^%S+"
    local dir = ("%s/%s"):format(base, line:gsub(" ", "-"))
    local url = { url = "file://" .. dir, connect_timeout = 1, io_timeout = 1 }
    local first = call == "open" and assert(dlock.open(url))
    if first then assert(first:ping()) end
    if call ~= "mkdir" then uv.fs_mkdir(dir, 448) end
    plan(dir, line)
    local store = assert(dlock.open(url))
    local ping = code(store:ping())
    local lease, message, try = store:try_lock("k")
    local wait = code(store:lock("k", { timeout = 0.1 }))
    lease = dlock.fallback({ store:mutex("f"), other:mutex("f"),
      grace = 0 }):acquire { timeout = 1 }
    plan(dir, "")
    print(line, ping, try, wait, lease and lease.degraded or false, message)
    if lease then lease:release() end
    if first then first:close() end
    store:close()
  end
]=]

-- number, code, the system's words
local ERRORS = {
  { 13, "denied", "ermission" }, { 1, "denied", "not permitted" },
  { 30, "invalid", "Read%-only file system" },
  { 20, "invalid", "Not a directory" }, { 36, "invalid", "too long" },
  { 40, "invalid", "symbolic links" }, { 28, "unavailable", "No space left" },
  { 122, "unavailable", "quota" }, { 24, "unavailable", "open files" },
  { 23, "unavailable", "open files" }, { 12, "unavailable", "memory" },
  { 5, "unavailable", "Input/output" },
  { 38, "unsupported", "FIFOs or no locks", "not implemented" },
}
local CALLS = { "opendir", "mkdir", "fstat", "fstatfs", "boot", "create",
  "open", "fstatat", "mkfifo", "pipe", "write" }

describe("file store", function()
  local base, ask

  before_each(function()
    base = server.new_dir()
    local env = library.preload(library.build(base, "shim", SHIM))
    env.DLOCK_PLAN = base .. "/plan"
    local p = process.spawn { args = { base }, script = SCRIPT, env = env }

    -- What the stores say when that call fails with that number.
    function ask(call, number)
      p:write(("%s %d\n"):format(call, number))
      return p:read_line()
    end
  end)

  after_each(function()
    process.close_all()
    server.remove_dir(base)
  end)

  it("says what kind of file system it refuses", function()
    for name, number in pairs { ["a network file system, NFS"] = 0x6969,
        FUSE = 0x65735546 } do
      assert.matches("unsupported: .* is on " .. name, ask("fstype", number))
    end
  end)

  for _, call in ipairs(CALLS) do
    it("says what the system answers to " .. call, function()
      for _, e in ipairs(ERRORS) do
        local number, code, words, others = e[1], e[2], e[3], e[4]
        local line = ask(call, number)
        local ping = call == "write" and "ok" or code -- it writes nothing
        local want = ("%s %d\t%s\t%s\t%s\t%s\t"):format(call, number, ping,
          code, code, tostring(code == "unavailable"))
        assert.are.equal(want, line and line:sub(1, #want))
        assert.is_truthy(line:find(words) or line:find(others or words), line)
      end
    end)
  end
end)
