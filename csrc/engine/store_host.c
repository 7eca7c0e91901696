/* The engine as a store sees it. */
#include "engine/hold/renewal.h"
#include "engine/ticket/close.h"
#include "engine/ticket/request.h"
#include "loop/owner.h"

static struct dlk_engine *engine_of(struct dlk_host *host) {
  return (struct dlk_engine *)(void *)host;
}

static int64_t now(struct dlk_host *host) {
  (void)host;
  return dlk_clock_now();
}

static void random_bytes(struct dlk_host *host, void *out, size_t n) {
  dlk_random_take(&engine_of(host)->random, out, n);
}

static void timer_set(struct dlk_host *host, struct dlk_timer *timer,
                      int64_t at) {
  dlk_timers_set(&engine_of(host)->loop.timers, timer, at);
}

static void timer_clear(struct dlk_host *host, struct dlk_timer *timer) {
  dlk_timers_clear(&engine_of(host)->loop.timers, timer);
}

static void event(struct dlk_host *host, const char *kind, const char *text) {
  struct dlk_engine *e = engine_of(host);
  if (e->quiet)
    return;
  dlk_events_add(&e->events, kind, 0, NULL, text);
  dlk_wakeup_note(&e->loop.wakeup);
}

static void busy(struct dlk_host *host, int delta) {
  struct dlk_engine *e = engine_of(host);
  e->work.busy += (size_t)delta;
  e->loop.work += (size_t)delta;
  dlk_work_look(e);
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
      .done = dlk_request_done,
      .renewed = dlk_hold_renewed,
      .renew_failed = dlk_hold_renew_failed,
      .lost = dlk_hold_lost,
      .revoked = dlk_hold_revoke,
      .hurry = dlk_holds_hurry,
      .horizon = dlk_hold_horizon,
      .event = event,
      .busy = busy,
      .watch = watch,
      .post = post,
      .loop = loop,
      .stopped = stopped,
  };
}
