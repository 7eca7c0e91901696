/* The child process of the command `dlock run`: start it in a process group of
 * its own, wait for it, pass signals and the terminal on. Handlers are set here
 * and in signals.c only, and only when they are asked for.
 *
 * The group is the command's own so that a signal can end all of it and nobody
 * else: dlock's group is also that of its script or pipeline. A group that is
 * not its terminal's foreground one gets no Ctrl-C, and is stopped when it
 * reads there. So:
 *
 * - What the terminal sends to our group (Ctrl-C, Ctrl-\, Ctrl-Z, a change of
 *   size, a hang-up) is caught, and dlock.cli.run passes it on.
 * - The terminal is handed over only when the child asks for it (SIGTTIN or
 *   SIGTTOU stopped it), and only if it is ours. Until then the others of our
 *   pipeline can use it too (a pager behind us, say).
 * - Its owner gets Ctrl-Z first; when that stopped the child, dlock takes the
 *   terminal back and stops itself, so that the shell goes on.
 *
 * Every other signal that would end dlock goes to the command in its place,
 * those of a timer too: without dlock nobody would give the lock back. Not
 * SIGKILL, nor those by which the kernel tells of our own mistake (SIGSEGV and
 * its like), nor a SIGPIPE or SIGXFSZ that a write of ours raised (the kernel
 * sends it in our name).
 *
 * Signals that are ignored when dlock starts (nohup, a background job) stay
 * ignored, but for SIGCHLD: a child whose end is ignored can never be waited
 * for. The child begins with what we were given. The interpreter sets a handler
 * for SIGINT before our code runs, so the shell in bin/dlock says in
 * DLOCK_IGNORED whether that was ignored. Without it (LuaRocks' own way in)
 * SIGQUIT shows it: a shell without job control ignores both in its background
 * jobs.
 *
 * The child asks the kernel for a SIGTERM should dlock be killed: the lock is
 * about to be another one's then. The wish reaches the child alone, is lost in
 * an exec that changes the user, and hangs on the thread that forked, which
 * runs the command to its end.
 *
 * No signal is missed between a look and a wait: they are blocked but for the
 * wait (ppoll). A caller may have blocked signals: we unblock each one that we
 * note, and the child begins with the caller's mask.
 *
 * PID 1 of a container, and a subreaper (--all-gone), get children that are not
 * theirs by birth. All that ended are reaped in each wait. */
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

/* Whether it ends who does not know of it, and may come from outside. */
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
  default: /* between the two kinds are those of the C library */
    return signal < 32 || (signal >= SIGRTMIN && signal <= SIGRTMAX);
  }
}

static bool ignores(int signal) {
  struct sigaction now;
  return sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* When we were started: the mask of /proc/self/status, or nothing. */
static bool ignored_interrupts(void) {
  const char *mask = getenv("DLOCK_IGNORED");
  if (!mask || !*mask)
    return ignores(SIGQUIT);
  return (strtoull(mask, NULL, 16) >> (SIGINT - 1) & 1) != 0;
}

static bool children_ignored; /* when we were started */
static sigset_t callers_mask; /* that of the thread that caught signals first */

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

/* core.catch_signals(all): from now on those that end a program are noted, for
 * core.caught(). Without `all` none that a write may raise: who prints into a
 * pipe ends with it, as any program does. */
static int core_catch_signals(lua_State *L) {
  bool all = lua_toboolean(L, 1);
  pthread_sigmask(SIG_BLOCK, NULL, &callers_mask);
  if (ignored_interrupts())
    set_handler(SIGINT, SIG_IGN);
  unsetenv("DLOCK_IGNORED"); /* it is not the child's */
  for (int signal = 1; signal < SIGNALS; signal++)
    if (ends(signal) && (all || (signal != SIGPIPE && signal != SIGXFSZ)))
      heed(signal);
  return 0;
}

/* core.caught(): a signal that came and was not returned yet, or nil. */
static int core_caught(lua_State *L) {
  for (int signal = 1; signal < SIGNALS; signal++)
    if (caught[signal] && signal != SIGCHLD) {
      caught[signal] = 0;
      dlk_compat_pushint(L, signal);
      return 1;
    }
  return 0;
}

/* A NULL-ended array of the table's strings, in a userdata left on the stack
 * (the strings stay alive in the table). */
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

/* In the child, between fork and exec: only what a signal handler may do. */
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

/* Returns 0 and the child's pid, or an errno. */
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
  while (why == 0) { /* what kept it from its program; exec closes the pipe */
    ssize_t n = read(fds[0], &why, sizeof why);
    if (n >= 0 || errno != EINTR)
      break;
  }
  close(fds[0]);
  if (why != 0 && *pid > 0)
    waitpid(*pid, NULL, 0);
  return why;
}

/* core.spawn(argv): its pid, which is also that of its process group; or nil,
 * why, and the exit status that says so. The environment is ours; the child
 * begins with the signal mask of our caller, and none ignored by us. From now
 * on all signals that concern it are noted. */
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

/* core.setenv(name, value), for the child; nil: it has none. */
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

/* core.kill_group(group, signal): whether anybody is left in the group. */
static int core_kill_group(lua_State *L) {
  pid_t group = group_of(L);
  lua_pushboolean(L, kill(-group, (int)luaL_checknumber(L, 2)) == 0);
  return 1;
}

/* As waitpid, once the other children that ended are reaped. */
static pid_t look(pid_t pid, int *status) {
  for (;;) {
    siginfo_t found = {0};
    if (waitid(P_ALL, 0, &found, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        found.si_pid == 0 || found.si_pid == pid)
      return waitpid(pid, status, WNOHANG | WUNTRACED);
    waitpid(found.si_pid, NULL, WNOHANG);
  }
}

/* core.wait_child(pid, seconds): "ended" and its status (128 + n when signal n
 * ended it), "stopped" and the signal that did it, or nothing after so long or
 * when a signal came. A child of which the kernel knows nothing (any more) has
 * ended after that time, with the status that a shell gives to such a one. */
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

/* core.terminal(fd): its rows and columns; nothing: it is no terminal. */
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

/* core.pass_terminal(from, to): makes the group `to` the foreground one of
 * our terminal if the group `from` is; 0 is our own group. Whether `to` is the
 * foreground group now, and whether it was not before. */
static int core_pass_terminal(lua_State *L) {
  pid_t from = (pid_t)luaL_checknumber(L, 1);
  pid_t to = (pid_t)luaL_checknumber(L, 2);
  int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
  bool has = false, changed = false;
  sigset_t set, old; /* a background process must block SIGTTOU for it */
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

/* core.suspend(signal, all): does to us what that signal does to who does not
 * catch it, or to our whole group, as a terminal would have; returns when we
 * go on. */
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
    {NULL, NULL},
};

void dlk_lua_open_child(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
}
