/* The child process of `dlock run`, in a process group of its own, so that a
 * signal ends all of it and nothing else. A background group gets no Ctrl-C and
 * stops when it reads the terminal. So:
 * I1 Signals of the terminal to our group (Ctrl-C, size, hang-up) are caught,
 *   and dlock.cli.run passes them on.
 * I2 The terminal goes to the child only when that stopped for it (SIGTTIN,
 *   SIGTTOU), and only if it is ours: others of our pipeline use it too.
 * I3 Ctrl-Z goes to the terminal's owner first. When it stopped the child,
 *   dlock takes the terminal back and stops itself.
 * I4 Every other signal that would end dlock goes to the command, because only
 *   dlock gives the lock back. Exceptions: SIGKILL, the kernel's signals for
 *   our own mistakes (SIGSEGV), and a SIGPIPE or SIGXFSZ of our own write.
 * I5 Signals ignored at the start (nohup) stay ignored, but for SIGCHLD: a
 *   child with an ignored end cannot be waited for. The interpreter handles
 *   SIGINT before this code runs, so bin/dlock says in DLOCK_IGNORED whether
 *   it was ignored. Without it, and where SIGINT was blocked, SIGQUIT
 *   decides: a shell without job control ignores both in the background.
 * I6 The child gets SIGTERM when dlock is killed, because the lock is about to
 *   be another's. This reaches the child alone, is lost in an exec that changes
 *   the user, and hangs on the thread that forked.
 * I7 Signals are blocked but for the wait (ppoll), so none is missed. The child
 *   starts with the caller's mask.
 * I8 PID 1 and a subreaper (--all-gone: prctl(2)) get children of others: each
 *   wait reaps all. A subreaper waits for the orphans and signals them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lua/binding.h"

#define UNKNOWN_CHILD 127
#define SIGNALS 65

static volatile sig_atomic_t caught[SIGNALS];

static void note(int signal, siginfo_t *info, void *context) {
  (void)context;
  if (info->si_code != SI_USER || info->si_pid != getpid())
    caught[signal] = 1;
}

/* Its default ends a process, and it may come from outside. */
static bool ends(int signal) {
  switch (signal) {
  case SIGKILL:
  case SIGILL:
  case SIGTRAP:
  case SIGABRT:
  case SIGBUS:
  case SIGFPE:
  case SIGSEGV:
  case SIGSYS:
  case SIGSTOP:
  case SIGTSTP:
  case SIGTTIN:
  case SIGTTOU:
  case SIGCONT:
  case SIGCHLD:
  case SIGURG:
  case SIGWINCH:
    return false;
  default: /* in between: the C library's */
    return signal < 32 || (signal >= SIGRTMIN && signal <= SIGRTMAX);
  }
}

static bool ignores(int signal) {
  struct sigaction now;
  return sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static bool children_ignored;
static sigset_t callers_mask; /* of the thread that caught signals first */

static void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler};
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, NULL);
}

static void set_note(int signal) {
  struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, NULL);
  pthread_sigmask(SIG_UNBLOCK, &only, NULL);
}

static void heed(int signal) {
  if (!ignores(signal))
    set_note(signal);
}

/* core.catch_signals(all). Without `all` not those of a write: a closed pipe
 * ends dlock as any program. */
static int core_catch_signals(lua_State *L) {
  bool all = lua_toboolean(L, 1);
  pthread_sigmask(SIG_BLOCK, NULL, &callers_mask);
  /* bin/dlock cannot tell a blocked signal from an ignored one. */
  bool blind = sigismember(&callers_mask, SIGINT) == 1;
  const char *seen = blind ? NULL : getenv("DLOCK_IGNORED");
  if (seen && *seen ? *seen == '1' : ignores(SIGQUIT))
    set_handler(SIGINT, SIG_IGN);
  unsetenv("DLOCK_IGNORED");
  for (int signal = 1; signal < SIGNALS; signal++)
    if (ends(signal) && (all || (signal != SIGPIPE && signal != SIGXFSZ)))
      heed(signal);
  return 0;
}

/* core.caught(): the next signal, or nil. */
static int core_caught(lua_State *L) {
  for (int signal = 1; signal < SIGNALS; signal++)
    if (caught[signal] && signal != SIGCHLD) {
      caught[signal] = 0;
      dlk_compat_pushint(L, signal);
      return 1;
    }
  return 0;
}

/* NULL-ended; in a userdata left on the stack. The table keeps the strings. */
static char **strings(lua_State *L, int index) {
  size_t n = lua_rawlen(L, index);
  char **list = lua_newuserdata(L, (n + 1) * sizeof *list);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, index, (int)i + 1);
    list[i] = (char *)(uintptr_t)luaL_checkstring(L, -1);
    lua_pop(L, 1);
  }
  list[n] = NULL;
  return list;
}

/* In the child, between fork and exec: async-signal-safe calls only. */
static _Noreturn void become(char **argv, pid_t parent, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  struct sigaction now;
  for (int signal = 1; signal < SIGNALS; signal++)
    if (sigaction(signal, NULL, &now) == 0 &&
        (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == note)
      set_handler(signal, SIG_DFL);
  if (children_ignored)
    set_handler(SIGCHLD, SIG_IGN);
  if (getppid() != parent)
    _exit(127); /* the parent was killed before prctl */
  sigprocmask(SIG_SETMASK, &callers_mask, NULL);
  execvp(argv[0], argv);
  int why = errno;
  ssize_t n = write(report, &why, sizeof why);
  (void)n;
  _exit(127);
}

/* 0, or an errno. */
static int start(char **argv, pid_t *pid) {
  int fds[2];
  pid_t self = getpid();
  if (pipe2(fds, O_CLOEXEC) != 0)
    return errno;
  *pid = fork();
  if (*pid == 0)
    become(argv, self, fds[1]);
  int why = *pid < 0 ? errno : 0;
  close(fds[1]);
  while (why == 0) { /* exec closes the pipe; else an errno comes */
    ssize_t n = read(fds[0], &why, sizeof why);
    if (n >= 0 || errno != EINTR)
      break;
  }
  close(fds[0]);
  if (why != 0 && *pid > 0)
    waitpid(*pid, NULL, 0);
  return why;
}

/* core.spawn(argv): its pid and group; or nil, why, and an exit status. */
static int core_spawn(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  char **argv = strings(L, 1);
  pid_t pid = -1;
  if (!argv[0])
    return luaL_error(L, "a command is expected");
  heed(SIGWINCH);
  heed(SIGTSTP);
  children_ignored = children_ignored || ignores(SIGCHLD);
  set_note(SIGCHLD);
  int why = start(argv, &pid);
  if (why == 0) {
    dlk_compat_pushint(L, pid);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, strerror(why));
  dlk_compat_pushint(L, why == ENOENT || why == ENOTDIR ? 127 : 126);
  return 3;
}

/* core.setenv(name, value or nil) */
static int core_setenv(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  if (lua_isnil(L, 2))
    unsetenv(name);
  else
    setenv(name, luaL_checkstring(L, 2), 1);
  return 0;
}

static pid_t group_of(lua_State *L) {
  pid_t pid = (pid_t)luaL_checknumber(L, 1);
  luaL_argcheck(L, pid > 1, 1, "not a process group");
  return pid;
}

/* core.kill_group(group, signal): whether the group has a process. */
static int core_kill_group(lua_State *L) {
  pid_t group = group_of(L);
  lua_pushboolean(L, kill(-group, (int)luaL_checknumber(L, 2)) == 0);
  return 1;
}

/* As waitpid, after reaping other children. */
static pid_t look(pid_t pid, int *status) {
  for (;;) {
    siginfo_t found = {0};
    if (waitid(P_ALL, 0, &found, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        found.si_pid == 0 || found.si_pid == pid)
      return waitpid(pid, status, WNOHANG | WUNTRACED);
    waitpid(found.si_pid, NULL, WNOHANG);
  }
}

/* core.wait_child(pid, seconds): "ended" and its status (128 + n: by signal n),
 * "stopped" and the signal, or nothing after a signal or that time. An unknown
 * child has ended. */
static int core_wait_child(lua_State *L) {
  pid_t pid = group_of(L);
  int64_t ns = dlk_lua_ns(L, 2);
  struct timespec limit = {ns / 1000000000, ns % 1000000000};
  sigset_t set, old;
  int status;
  sigfillset(&set);
  pthread_sigmask(SIG_BLOCK, &set, &old);
  pid_t found = look(pid, &status);
  if (found <= 0) {
    ppoll(NULL, 0, &limit, &old);
    found = look(pid, &status);
  }
  if (found < 0 && errno == ECHILD) {
    found = pid;
    status = UNKNOWN_CHILD << 8;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (found != pid)
    return 0;
  int stopped = WIFSTOPPED(status);
  lua_pushstring(L, stopped ? "stopped" : "ended");
  dlk_compat_pushint(L, stopped               ? WSTOPSIG(status)
                        : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                              : WEXITSTATUS(status));
  return 2;
}

/* core.pause(seconds): less when a signal came. */
static int core_pause(lua_State *L) {
  int64_t ns = dlk_lua_ns(L, 1);
  struct timespec limit = {ns / 1000000000, ns % 1000000000};
  ppoll(NULL, 0, &limit, NULL);
  return 0;
}

/* core.terminal(fd): rows and columns, or nothing. */
static int core_terminal(lua_State *L) {
  struct winsize size;
  int fd = (int)luaL_checknumber(L, 1);
  if (!isatty(fd))
    return 0;
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || !size.ws_row || !size.ws_col)
    size = (struct winsize){.ws_row = 24, .ws_col = 80};
  dlk_compat_pushint(L, size.ws_row);
  dlk_compat_pushint(L, size.ws_col);
  return 2;
}

/* core.pass_terminal(from, to): makes group `to` the foreground one if `from`
 * is (0: our own). Whether `to` is it now, and whether that changed. */
static int core_pass_terminal(lua_State *L) {
  pid_t from = (pid_t)luaL_checknumber(L, 1);
  pid_t to = (pid_t)luaL_checknumber(L, 2);
  int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
  bool has = false, changed = false;
  sigset_t set, old; /* it would stop a background process */
  sigemptyset(&set);
  sigaddset(&set, SIGTTOU);
  pthread_sigmask(SIG_BLOCK, &set, &old);
  if (tty >= 0) {
    pid_t now = tcgetpgrp(tty), ours = getpgrp();
    to = to == 0 ? ours : to;
    changed = now == (from == 0 ? ours : from) && tcsetpgrp(tty, to) == 0;
    has = changed || now == to;
    close(tty);
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  lua_pushboolean(L, has);
  lua_pushboolean(L, changed);
  return 2;
}

/* core.suspend(signal, all): the signal's default stops us, or our group;
 * returns when we go on. */
static int core_suspend(lua_State *L) {
  int signal = (int)luaL_checknumber(L, 1);
  struct sigaction old;
  sigaction(signal, NULL, &old);
  set_handler(signal, SIG_DFL);
  if (lua_toboolean(L, 2))
    kill(0, signal);
  else
    raise(signal);
  sigaction(signal, &old, NULL);
  return 0;
}

/* core.kill_own_group(signal) */
static int core_kill_own_group(lua_State *L) {
  kill(0, (int)luaL_checknumber(L, 1));
  return 0;
}

static int core_adopt(lua_State *L) {
  (void)L;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  return 0;
}

/* Reaps all that ended. */
static bool has_children(void) {
  pid_t found;
  do
    found = waitpid(-1, NULL, WNOHANG);
  while (found > 0);
  return found == 0;
}

/* core.wait_adopted(seconds): whether a child is left after so long, or after a
 * child's end or a signal. */
static int core_wait_adopted(lua_State *L) {
  int64_t ns = dlk_lua_ns(L, 1);
  struct timespec limit = {ns / 1000000000, ns % 1000000000};
  sigset_t set, old;
  sigfillset(&set);
  pthread_sigmask(SIG_BLOCK, &set, &old);
  bool left = has_children();
  if (left) {
    ppoll(NULL, 0, &limit, &old);
    left = has_children();
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  lua_pushboolean(L, left);
  return 1;
}

#define GROUPS_AT_ONCE 64

/* Adds the group, if there is room. */
static bool is_new(pid_t *groups, int *n, pid_t group) {
  for (int i = 0; i < *n; i++)
    if (groups[i] == group)
      return false;
  if (*n < GROUPS_AT_ONCE)
    groups[(*n)++] = group;
  return true;
}

/* core.kill_adopted(signal, pid): to the groups of all children but that of
 * pid. A child in our own group gets it alone. */
static int core_kill_adopted(lua_State *L) {
  int signal = (int)luaL_checknumber(L, 1), n = 0;
  pid_t except = (pid_t)lua_tonumber(L, 2), groups[GROUPS_AT_ONCE];
  int child;
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  FILE *list = fopen(path, "re");
  while (list && fscanf(list, "%d", &child) == 1) {
    pid_t group = getpgid(child);
    if (group == getpgrp())
      kill(child, signal);
    else if (group > 1 && group != except && is_new(groups, &n, group))
      kill(-group, signal);
  }
  if (list)
    fclose(list);
  return 0;
}

static const luaL_Reg functions[] = {
    {"catch_signals", core_catch_signals},
    {"caught", core_caught},
    {"spawn", core_spawn},
    {"setenv", core_setenv},
    {"kill_group", core_kill_group},
    {"kill_own_group", core_kill_own_group},
    {"wait_child", core_wait_child},
    {"pause", core_pause},
    {"terminal", core_terminal},
    {"pass_terminal", core_pass_terminal},
    {"suspend", core_suspend},
    {"adopt", core_adopt},
    {"wait_adopted", core_wait_adopted},
    {"kill_adopted", core_kill_adopted},
    {NULL, NULL},
};

void dlk_lua_open_child(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
}
