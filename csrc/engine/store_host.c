/* What the engine is to a store: the clock, random bytes, timers, and the
 * ways to report back. */
#include "engine/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static struct dlk_engine *engine_of(struct dlk_host *host) {
  return (struct dlk_engine *)(void *)host;
}

static int64_t now(struct dlk_host *host) {
  (void)host;
  return dlk_clock_now();
}

/* Bytes are drawn in blocks, and each is given out once. Without entropy no
 * token is safe; the kernel call cannot fail on a kernel that we run on. */
static void random_bytes(struct dlk_host *host, void *out, size_t n) {
  struct dlk_engine *e = engine_of(host);
  unsigned char *to = out;
  while (n > 0) {
    if (e->entropy_left == 0) {
      if (getrandom(e->entropy, sizeof e->entropy, 0) !=
          (ssize_t)sizeof e->entropy)
        abort();
      e->entropy_left = sizeof e->entropy;
    }
    size_t take = n < e->entropy_left ? n : e->entropy_left;
    memcpy(to, e->entropy + sizeof e->entropy - e->entropy_left, take);
    e->entropy_left -= take;
    to += take;
    n -= take;
  }
}

static void timer_set(struct dlk_host *host, struct dlk_timer *timer,
                      int64_t at) {
  dlk_timers_set(&engine_of(host)->loop.timers, timer, at);
}

static void timer_clear(struct dlk_host *host, struct dlk_timer *timer) {
  dlk_timers_clear(&engine_of(host)->loop.timers, timer);
}

static void horizon(struct dlk_host *host, int64_t until) {
  struct dlk_engine *e = engine_of(host);
  atomic_store(&e->horizon, until);
  e->horizon_timer.fire = dlk_horizon_passed;
  if (until == DLK_FOREVER)
    dlk_timers_clear(&e->loop.timers, &e->horizon_timer);
  else
    dlk_timers_set(&e->loop.timers, &e->horizon_timer, until);
}

static void event(struct dlk_host *host, const char *kind, const char *text) {
  dlk_news_add(engine_of(host), kind, text);
}

static void busy(struct dlk_host *host, int delta) {
  struct dlk_engine *e = engine_of(host);
  e->busy += (size_t)delta;
  e->loop.work += (size_t)delta;
  dlk_close_progress(e);
}

static void watch(struct dlk_host *host, int fd) {
  atomic_store(&engine_of(host)->loop.watch_fd, fd);
}

static void post(struct dlk_host *host, struct dlk_post *p) {
  dlk_owner_post(&engine_of(host)->loop, p, true);
}

static struct uv_loop_s *loop(struct dlk_host *host) {
  return &engine_of(host)->loop.uv;
}

static void stopped(struct dlk_host *host) {
  dlk_close_stopped(engine_of(host));
}

void dlk_host_init(struct dlk_host *host) {
  *host = (struct dlk_host){
      .abi = DLK_STORE_ABI,
      .now = now,
      .random = random_bytes,
      .timer_set = timer_set,
      .timer_clear = timer_clear,
      .done = dlk_ticket_op_done,
      .renewed = dlk_hold_renewed,
      .renew_failed = dlk_hold_renew_failed,
      .lost = dlk_hold_lost,
      .revoked = dlk_hold_revoke,
      .horizon = horizon,
      .event = event,
      .busy = busy,
      .watch = watch,
      .post = post,
      .loop = loop,
      .stopped = stopped,
  };
}
