-- What the system answers to the file store's calls, one after the other: what
-- is refused, or cannot work whoever waits, is no outage.

local library = require "spec.support.library"
local process = require "spec.support.process"
local server = require "spec.support.server"

-- DLOCK_FAIL is "call errno": from then on that call fails so, where it is
-- about the lock directory ($DLOCK_DIR) or what is in it.
local SHIM = [[
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

static const char *lock_dir(void) {
  const char *dir = getenv("DLOCK_DIR");
  return dir ? dir : "nowhere";
}

static int fails(const char *call) {
  const char *plan = getenv("DLOCK_FAIL");
  size_t n = strlen(call);
  if (!plan || strncmp(plan, call, n) != 0 || plan[n] != ' ')
    return 0;
  errno = atoi(plan + n + 1);
  return 1;
}

static int ours(int fd) {
  char link[64], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t (*readlink)(const char *, char *, size_t) =
      (ssize_t (*)(const char *, char *, size_t))dlsym(RTLD_NEXT, "readlink");
  int before = errno;
  readlink(link, path, sizeof path - 1);
  errno = before;
  return strncmp(path, lock_dir(), strlen(lock_dir())) == 0;
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
  if (fails(call) && (dir == AT_FDCWD
                          ? strcmp(name, lock_dir()) == 0
                          : ours(dir)))
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
  if (strcmp(path, lock_dir()) == 0 && fails("mkdir"))
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
  for line in io.lines() do
    local call = line:match "^%S+"
    local dir = ("%s/%s"):format(base, line:gsub(" ", "-"))
    local url = { url = "file://" .. dir, connect_timeout = 1, io_timeout = 1 }
    local first = call == "open" and assert(dlock.open(url))
    if first then assert(first:ping()) end
    if call ~= "mkdir" then uv.fs_mkdir(dir, 448) end
    uv.os_setenv("DLOCK_DIR", dir)
    uv.os_setenv("DLOCK_FAIL", line)
    local store = assert(dlock.open(url))
    local ping = code(store:ping())
    local lease, message, try = store:try_lock("k")
    local wait = code(store:lock("k", { timeout = 0.1 }))
    lease = dlock.fallback({ store:mutex("f"), other:mutex("f"),
      grace = 0 }):acquire { timeout = 1 }
    uv.os_setenv("DLOCK_FAIL", "")
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
  local base

  before_each(function() base = server.new_dir() end)

  after_each(function()
    process.close_all()
    server.remove_dir(base)
  end)

  it("says what kind of file system it refuses", function()
    local p = process.spawn { args = { base }, script = SCRIPT,
      env = library.preload(library.build(base, "shim", SHIM)) }
    for name, number in pairs { ["a network file system, NFS"] = 0x6969,
        FUSE = 0x65735546 } do
      p:write(("fstype %d\n"):format(number))
      assert.matches("unsupported: .* is on " .. name, p:read_line())
    end
  end)

  for _, call in ipairs(CALLS) do
    it("says what the system answers to " .. call, function()
      local shim = library.build(base, "shim", SHIM)
      local p = process.spawn { args = { base }, script = SCRIPT,
        env = library.preload(shim) }
      for _, e in ipairs(ERRORS) do
        local number, code, words, others = e[1], e[2], e[3], e[4]
        p:write(("%s %d\n"):format(call, number))
        local line = p:read_line()
        local ping = call == "write" and "ok" or code -- it writes nothing
        local want = ("%s %d\t%s\t%s\t%s\t%s\t"):format(call, number, ping,
          code, code, tostring(code == "unavailable"))
        assert.are.equal(want, line and line:sub(1, #want))
        assert.is_truthy(line:find(words) or line:find(others or words), line)
      end
    end)
  end
end)
