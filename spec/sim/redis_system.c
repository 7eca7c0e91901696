/* See redis_host.h. The system calls are found before the C library's because
 * this library looks at itself first. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "redis_host.h"

#define HIDDEN __attribute__((visibility("hidden")))

int64_t sim_time;
struct client *sim_running;

void sim_die(const char *what) {
  fprintf(stderr, "redis_client: %s\n", what);
  abort();
}

HIDDEN int clock_gettime(clockid_t id, struct timespec *out) {
  (void)id;
  out->tv_sec = (time_t)(sim_time / DLK_SEC);
  out->tv_nsec = (long)(sim_time % DLK_SEC);
  return 0;
}

HIDDEN ssize_t getrandom(void *out, size_t n, unsigned flags) {
  uint64_t *x = &sim_running->random;
  (void)flags;
  for (size_t i = 0; i < n; i++) {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    ((unsigned char *)out)[i] = (unsigned char)(*x >> 32);
  }
  return (ssize_t)n;
}

/* ---- in thread.c's place ---- */

bool dlk_thread_start(struct dlk_loop *l, const char *shown,
                      struct dlk_error *err) {
  (void)shown;
  (void)err;
  l->sleeper.running = true;
  return true;
}

void dlk_thread_join(struct dlk_loop *l) {
  l->sleeper.running = false;
}

void dlk_thread_detach(struct dlk_loop *l) {
  l->sleeper.running = false;
}

void sim_enter(struct client *c) {
  sim_running = c;
  atomic_store(&c->engine->loop.owner, DLK_OWNER_THREAD);
}

void sim_leave(struct client *c) {
  struct dlk_loop *l = &c->engine->loop;
  bool turns = c->routed; /* the router has hooks around the loop's sleep */
  while (dlk_engine_used(c->engine) && !atomic_load(&l->ended) &&
         (turns || !dlk_inbox_empty(&l->inbox) ||
          dlk_timers_next(&l->timers) <= sim_time)) {
    turns = false;
    dlk_owner_turn(l, UV_RUN_NOWAIT);
  }
  dlk_owner_leave(l);
}
