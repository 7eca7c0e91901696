/* What the engine's tests share: the parts of a store that are the same in all
 * of them, and requests to an engine. Each test adds the `submit` that it
 * needs, and others where it is about these. */
#ifndef SPEC_C_ENGINE_STORE_H
#define SPEC_C_ENGINE_STORE_H

#include "check.h"
#include "engine/state.h"

/* Of the store that was made last; each store is its own host. */
static struct dlk_host *host;

static inline const char *store_prefix(const char *given) {
  return given ? given : "";
}

static inline enum dlk_code store_create(struct dlk_host *h,
                                         const struct dlk_conf *conf,
                                         void **out, struct dlk_error *err) {
  (void)conf;
  (void)err;
  *out = host = h;
  return DLK_OK;
}

static inline void store_stop(void *store) {
  struct dlk_host *h = store;
  h->stopped(h);
}

static inline void store_destroy(void *store) {
  (void)store;
}

static inline struct dlk_ticket *
ask_of(struct dlk_engine *e, const struct dlk_request *r, bool wake) {
  struct dlk_error err;
  struct dlk_ticket *t = dlk_engine_submit(e, r, wake, &err);
  CHECK(t);
  return t;
}

static inline void ask_and_wait_of(struct dlk_engine *e,
                                   const struct dlk_request *r) {
  struct dlk_ticket *t = ask_of(e, r, false);
  while (!dlk_engine_drive(t, DLK_SEC))
    continue;
  dlk_ticket_unref(t);
}

static inline void ping(struct dlk_engine *e) {
  const struct dlk_request r = {.kind = DLK_OP_PING, .timeout = -1};
  ask_and_wait_of(e, &r);
}

static inline void close_and_join(struct dlk_engine *e, int64_t timeout) {
  const struct dlk_request r = {.task = DLK_TASK_CLOSE, .timeout = timeout};
  ask_and_wait_of(e, &r);
  dlk_engine_join(e);
}

#endif
