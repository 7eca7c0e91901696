/* The engines in use, so that an exiting process can end them (exit.c).
 *
 * Exit handlers run in reverse order. Ours must run before that of TLS
 * (tls/gate.c), which the first such connection registers: so the first grant
 * on one registers ours again.
 *
 * A fork takes the lock, and the child's list begins empty: a parent's leases
 * are not the child's to give back. */
#include "engine/in_use.h"

#include <stdlib.h>

#include "engine/state.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dlk_list engines = {&engines, &engines}; /* under the lock */
static void (*handler)(void);

static void enter(void) {
  pthread_mutex_lock(&lock);
}

static void leave(void) {
  pthread_mutex_unlock(&lock);
}

static void in_child(void) {
  dlk_list_init(&engines);
  pthread_mutex_unlock(&lock);
}

bool dlk_in_use_begin(void (*at_exit)(void)) {
  handler = at_exit;
  return pthread_atfork(enter, leave, in_child) == 0 && atexit(handler) == 0;
}

static void watch(void) {
  if (handler)
    atexit(handler);
}

void dlk_in_use_behind_tls(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch);
}

void dlk_in_use_add(struct dlk_engine *e) {
  enter();
  dlk_list_append(&engines, &e->in_use);
  leave();
}

void dlk_in_use_remove(struct dlk_engine *e) {
  enter();
  dlk_list_remove(&e->in_use);
  leave();
}

static size_t count(void) {
  size_t n = 0;
  for (struct dlk_list *l = engines.next; l != &engines; l = l->next)
    n++;
  return n;
}

size_t dlk_in_use_count(void) {
  enter();
  size_t n = count();
  leave();
  return n;
}

struct dlk_engine **dlk_in_use_list(void) {
  enter();
  size_t n = count();
  struct dlk_engine **list = calloc(n + 1, sizeof *list);
  struct dlk_list *l = list ? engines.next : &engines;
  for (n = 0; l != &engines; l = l->next) {
    struct dlk_engine *e = DLK_CONTAINER(l, struct dlk_engine, in_use);
    if (atomic_load(&e->closing))
      continue;
    dlk_engine_ref(e);
    list[n++] = e;
  }
  leave();
  return list;
}
