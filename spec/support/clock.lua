-- A clock that a spec controls, for a process that it starts: loaded
-- before the C library, it answers for the time of day and for CLOCK_BOOTTIME
-- (which goes on while a machine sleeps). CLOCK_MONOTONIC goes on as it is, so
-- that sleeps by that clock are real.
--
--   local c = clock.new(dir); start a process with c.env
--   c:step(3600); c:freeze(); c:go_on()

local library = require "spec.support.library"
local server = require "spec.support.server"

local clock = {}
clock.__index = clock

-- What it is told stands as text in a file that it has mapped: by how many ms
-- it is ahead, and whether (1) it stands still.
local SOURCE = [[
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const char *told;
static struct timespec stopped[2];

__attribute__((constructor)) static void begin(void) {
  int fd = open(getenv("DLOCK_TEST_CLOCK"), O_RDONLY | O_CLOEXEC);
  void *p = mmap(NULL, 64, PROT_READ, MAP_SHARED, fd, 0);
  if (fd < 0 || p == MAP_FAILED)
    abort();
  close(fd);
  told = p;
}

int clock_gettime(clockid_t id, struct timespec *t) {
  long rc = syscall(SYS_clock_gettime, id, t);
  if (rc != 0 || !told || (id != CLOCK_REALTIME && id != CLOCK_BOOTTIME))
    return (int)rc;
  char *end;
  long long ms = strtoll(told, &end, 10);
  struct timespec *still = &stopped[id == CLOCK_BOOTTIME];
  if (strtol(end, NULL, 10) == 0)
    still->tv_sec = 0;
  else if (still->tv_sec == 0)
    *still = *t;
  if (still->tv_sec)
    *t = *still;
  long long ns = t->tv_nsec + ms % 1000 * 1000000;
  t->tv_sec += ms / 1000 + (ns >= 1000000000) - (ns < 0);
  t->tv_nsec = (ns + 1000000000) % 1000000000;
  return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}
]]

local function tell(self)
  local file = assert(io.open(self.path, "r+b"))
  file:write(("%-30d %-30d\n"):format(self.ahead * 1000, self.still and 1 or 0))
  file:close()
end

--- A clock, with the environment (env) of a process of ours that goes by it.
function clock.new(dir)
  local self = setmetatable({ path = dir .. "/clock", ahead = 0 }, clock)
  server.write_file(self.path, (" "):rep(64))
  tell(self)
  self.library = library.build(dir, "clock", SOURCE)
  self.env = library.preload(self.library)
  self.env.DLOCK_TEST_CLOCK = self.path
  return self
end

--- The command of a server that goes by it, or by the machine's (nil). No
--- sanitizer is in there.
function clock.under(one, command)
  if not one then return command end
  local all = { "env", "LD_PRELOAD=" .. one.library,
    "DLOCK_TEST_CLOCK=" .. one.path }
  for _, word in ipairs(command) do all[#all + 1] = word end
  return all
end

--- Moves it, forth or (negative) back, by whole seconds.
function clock:step(seconds)
  self.ahead = self.ahead + seconds
  tell(self)
end

--- It stands still, from when it is next looked at.
function clock:freeze()
  self.still = true
  tell(self)
end

function clock:go_on()
  self.still = false
  tell(self)
end

return clock
