/* For `dlock run --all-gone`: a subreaper (prctl(2)) waits for the orphans
 * among its descendants, and signals them. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lua/binding.h"

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
    {"adopt", core_adopt},
    {"wait_adopted", core_wait_adopted},
    {"kill_adopted", core_kill_adopted},
    {NULL, NULL},
};

void dlk_lua_open_orphans(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
}
