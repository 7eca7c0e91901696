/* Unit tests of quiet writes (csrc/core/quiet.c): they fail, and the program
 * sees nothing of a signal, neither now nor when it lets signals in. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "core/quiet.h"

static volatile sig_atomic_t seen;

static void see(int signal) {
  (void)signal;
  seen++;
}

static bool pending(int signal) {
  sigset_t set;
  return sigpending(&set) == 0 && sigismember(&set, signal) == 1;
}

static bool blocked(int signal) {
  sigset_t set;
  return pthread_sigmask(SIG_BLOCK, NULL, &set) == 0 &&
         sigismember(&set, signal) == 1;
}

static void mask(int how, int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(how, &set, NULL);
}

/* A write of ours, and what it must fail with. */
static void write_badly(int signal) {
  int fds[2];
  if (signal == SIGPIPE) {
    CHECK(pipe(fds) == 0 && close(fds[0]) == 0);
    CHECK(dlk_quiet_write(fds[1], "x", 1) < 0 && errno == EPIPE);
    close(fds[1]);
  } else {
    struct rlimit old, none;
    FILE *file = tmpfile();
    CHECK(file != NULL && getrlimit(RLIMIT_FSIZE, &old) == 0);
    none = (struct rlimit){.rlim_cur = 1, .rlim_max = old.rlim_max};
    CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
    dlk_quiet_look();
    CHECK(dlk_quiet_pwrite(fileno(file), "x", 1, 0) == 1);
    CHECK(dlk_quiet_pwrite(fileno(file), "x", 1, 1) < 0 && errno == EFBIG);
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
    CHECK(dlk_quiet_pwrite(fileno(file), "x", 1, 1) == 1);
    fclose(file);
  }
}

static const int signals[] = {SIGPIPE, SIGXFSZ};

TEST(handlers_are_not_called) {
  for (int i = 0; i < 2; i++) {
    signal(signals[i], see);
    write_badly(signals[i]);
    CHECK(seen == 0 && !pending(signals[i]) && !blocked(signals[i]));
    raise(signals[i]);
    CHECK(seen == 1);
    seen = 0;
    signal(signals[i], SIG_DFL);
    write_badly(signals[i]);
  }
}

TEST(blocked_ones_stay_so) {
  for (int i = 0; i < 2; i++) {
    mask(SIG_BLOCK, signals[i]);
    write_badly(signals[i]);
    CHECK(blocked(signals[i]) && !pending(signals[i]));
    mask(SIG_UNBLOCK, signals[i]);
  }
}

TEST(pending_ones_are_the_programs) {
  for (int i = 0; i < 2; i++) {
    signal(signals[i], see);
    mask(SIG_BLOCK, signals[i]);
    raise(signals[i]);
    write_badly(signals[i]);
    CHECK(pending(signals[i]) && seen == 0);
    mask(SIG_UNBLOCK, signals[i]);
    CHECK(seen == 1);
    seen = 0;
    signal(signals[i], SIG_DFL);
  }
}

/* As long as nobody looked there may be a limit. */
TEST(a_limit_is_found_anew) {
  dlk_quiet_look();
  write_badly(SIGXFSZ);
}

int main(void) {
  return check_all();
}
