/* dlock.release_on: a signal gives back what the process holds, and then has
 * its previous effect.
 *
 * The handler only writes the number into a pipe. A thread reads it and closes
 * all stores. For a default, which ends the process, the thread raises the
 * signal in itself. A handler of the program's has to run in its threads
 * (lua.c's sets a debug hook): the signal is sent again, our handler calls it,
 * and then is set again.
 *
 * A program that ends meanwhile waits at exit for the death by its signal. In a
 * forked child, known by its pid, the handler restores the previous action and
 * raises the signal. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/native.h"
#include "core/status.h"
#include "lua/binding.h"

#define BOUND (150 * DLK_MS)

static const struct name {
  const char *name;
  int number;
} names[] = {{"TERM", SIGTERM}, {"INT", SIGINT},   {"HUP", SIGHUP},
             {"QUIT", SIGQUIT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2},
             {"ALRM", SIGALRM}};

#define SIGNALS 32

static struct sigaction before[SIGNALS];
static int ends[2]; /* of the pipe of `maker` */
static _Atomic pid_t maker;
static atomic_bool dying; /* by a signal's default */
static atomic_bool
    due[SIGNALS]; /* stores are closed: call the previous handler */

static void set(int number);

static void call_before(int number, siginfo_t *info, void *context) {
  struct sigaction was = before[number];
  if (was.sa_flags & SA_SIGINFO)
    was.sa_sigaction(number, info, context);
  else
    was.sa_handler(number);
  set(number);
}

static void on_signal(int number, siginfo_t *info, void *context) {
  int saved = errno;
  unsigned char byte = (unsigned char)number;
  if (getpid() == maker && atomic_exchange(&due[number], false)) {
    call_before(number, info, context);
    errno = saved;
    return;
  }
  if (before[number].sa_handler == SIG_DFL)
    dying = true;
  if (getpid() == maker && write(ends[1], &byte, 1) == 1) {
    errno = saved;
    return;
  }
  sigaction(number, &before[number], NULL);
  raise(number);
  errno = saved;
}

static void await_death(void) {
  if (dying && getpid() == maker)
    poll(NULL, 0, (int)(2 * BOUND / DLK_MS));
}

static bool is_ours(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) != 0 &&
         action->sa_sigaction == on_signal;
}

/* An ignored signal (nohup) stays ignored. */
static void set(int number) {
  struct sigaction now, ours = {.sa_sigaction = on_signal};
  if (sigaction(number, NULL, &now) != 0 || now.sa_handler == SIG_IGN ||
      is_ours(&now))
    return;
  before[number] = now;
  ours.sa_mask = now.sa_mask;
  ours.sa_flags =
      SA_SIGINFO |
      (now.sa_handler == SIG_DFL ? SA_RESTART : now.sa_flags & SA_RESTART);
  sigaction(number, &ours, NULL);
}

static void let_it_happen(int number) {
  sigset_t one, old;
  struct sigaction now;
  if (before[number].sa_handler != SIG_DFL) {
    due[number] = sigaction(number, NULL, &now) == 0 && is_ours(&now);
    kill(getpid(), number);
    return;
  }
  sigemptyset(&one);
  sigaddset(&one, number);
  sigaction(number, &before[number], NULL);
  pthread_sigmask(SIG_UNBLOCK, &one, &old);
  raise(number);
  dying = false; /* pid 1 survives a signal's default */
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  set(number);
}

static void *run(void *arg) {
  unsigned char number;
  (void)arg;
  for (;;) {
    ssize_t n = read(ends[0], &number, 1);
    if (n == 1) {
      dlk_engines_close(BOUND);
      let_it_happen(number);
    } else if (n == 0 || errno != EINTR) {
      return NULL;
    }
  }
}

/* 0, or an errno. */
static int begin(void) {
  if (maker == getpid())
    return 0;
  static bool registered;
  int fds[2];
  registered = registered || atexit(await_death) == 0;
  if (pipe2(fds, O_CLOEXEC) != 0)
    return errno;
  fcntl(fds[1], F_SETFL, O_NONBLOCK);
  ends[0] = fds[0];
  ends[1] = fds[1];
  int why = dlk_native_start(NULL, 0, run, NULL);
  if (why == 0) {
    maker = getpid();
    return 0;
  }
  close(fds[0]);
  close(fds[1]);
  return why;
}

static int number_of(lua_State *L, int index) {
  const char *name =
      lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : "";
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i].name) == 0)
      return names[i].number;
  return 0;
}

static int core_signal_number(lua_State *L) {
  int number = number_of(L, 1);
  if (number == 0)
    return 0;
  lua_pushinteger(L, number);
  return 1;
}

static int core_release_on(lua_State *L) {
  struct dlk_error err;
  char reason[DLK_REASON_MAX];
  int why = begin();
  if (why != 0) {
    dlk_error_set(&err, DLK_UNAVAILABLE, "no signal can be watched: %s",
                  dlk_reason(reason, why));
    return dlk_lua_failure(L, &err);
  }
  for (int i = 1; i <= lua_gettop(L); i++)
    if (number_of(L, i) != 0)
      set(number_of(L, i));
  lua_pushboolean(L, 1);
  return 1;
}

static const luaL_Reg functions[] = {{"signal_number", core_signal_number},
                                     {"release_on", core_release_on},
                                     {NULL, NULL}};

void dlk_lua_open_signals(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
}
