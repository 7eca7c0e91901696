/* The child process of the command `dlock run`: start it, wait for it with a
 * deadline, tell it of signals. Only the command uses this: it is the one
 * place where handlers are set, and only when the command asks for it. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lua/binding.h"

extern char **environ;

static volatile sig_atomic_t caught;

static void note(int signal) {
  caught = signal;
}

/* core.child_signals(): from now on these are noted, for core.caught(). */
static int core_child_signals(lua_State *L) {
  static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
  struct sigaction action = {.sa_handler = note};
  (void)L;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    sigaction(signals[i], &action, NULL);
  return 0;
}

/* core.caught(): the last signal that came since the last call, or nil. */
static int core_caught(lua_State *L) {
  int signal = caught;
  caught = 0;
  if (signal == 0)
    return 0;
  dlk_compat_pushint(L, signal);
  return 1;
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

/* core.spawn(argv): its pid, or nil and why. The environment is ours; the
 * child begins with no signal ignored or blocked by us. */
static int core_spawn(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  char **argv = strings(L, 1);
  if (!argv[0])
    return luaL_error(L, "a command is expected");
  posix_spawnattr_t attr;
  sigset_t none;
  pid_t pid;
  sigemptyset(&none);
  posix_spawnattr_init(&attr);
  posix_spawnattr_setsigmask(&attr, &none);
  posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
  int rc = posix_spawnp(&pid, argv[0], NULL, &attr, argv, environ);
  posix_spawnattr_destroy(&attr);
  if (rc == 0) {
    dlk_compat_pushint(L, pid);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, strerror(rc));
  return 2;
}

/* core.setenv(name, value), for the child. */
static int core_setenv(lua_State *L) {
  setenv(luaL_checkstring(L, 1), luaL_checkstring(L, 2), 1);
  return 0;
}

/* core.kill(pid, signal) */
static int core_kill(lua_State *L) {
  pid_t pid = (pid_t)luaL_checknumber(L, 1);
  luaL_argcheck(L, pid > 0, 1, "not a process");
  lua_pushboolean(L, kill(pid, (int)luaL_checknumber(L, 2)) == 0);
  return 1;
}

/* core.wait_child(pid, seconds): its status (128 + n when signal n ended it),
 * or nil when it still runs after so long, or when a signal came. */
static int core_wait_child(lua_State *L) {
  pid_t pid = (pid_t)luaL_checknumber(L, 1);
  int ms = (int)(luaL_checknumber(L, 2) * 1000);
  struct pollfd p = {.events = POLLIN};
  p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (p.fd < 0 && ms > 20)
    ms = 20; /* an old kernel: look again soon */
  if (!caught)
    poll(p.fd < 0 ? NULL : &p, p.fd < 0 ? 0 : 1, ms);
  if (p.fd >= 0)
    close(p.fd);
  int status;
  if (waitpid(pid, &status, WNOHANG) != pid)
    return 0;
  dlk_compat_pushint(L, WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                            : WEXITSTATUS(status));
  return 1;
}

static const luaL_Reg functions[] = {
    {"child_signals", core_child_signals},
    {"caught", core_caught},
    {"spawn", core_spawn},
    {"setenv", core_setenv},
    {"kill", core_kill},
    {"wait_child", core_wait_child},
    {NULL, NULL},
};

void dlk_lua_open_child(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
}
