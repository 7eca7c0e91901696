/* A store's host without the engine: one loop, one thread, operations that a
 * test submits and looks at. It checks what a store owes its host: each
 * operation ends exactly once, and nothing is left in the loop at the end. */
#ifndef SPEC_C_HOST_H
#define SPEC_C_HOST_H

#include <uv.h>

#include "core/list.h"
#include "store/store.h"

struct host {
  struct dlk_host host; /* first: what the store is handed */
  const struct dlk_store_type *type;
  struct dlk_conf conf; /* as the store got it, which may keep it */
  void *store;
  uv_loop_t loop;
  uv_timer_t tick;
  uv_async_t kick;
  uv_mutex_t lock;
  struct dlk_post *posts, **last_post; /* in order; where the next one goes */
  struct dlk_heap timers;
  int64_t skew;      /* added to the clock */
  int64_t stands_at; /* what the clock says for ever; 0: it goes on */
  int64_t horizon;
  int busy, open_ops, watched, hurries;
  bool used, stopped;
  /* Called when they are set: */
  void (*on_done)(struct host *h, struct dlk_op *op,
                  const struct dlk_error *err);
  void (*on_lost)(struct host *h, struct dlk_lease *lease, const char *why);
  void (*on_revoked)(struct host *h, struct dlk_lease *lease);
  void (*on_renewed)(struct host *h, struct dlk_lease *lease, bool ok);
  void (*on_event)(struct host *h, const char *kind, const char *text);
  void *user;
};

/* Aborts with a message when the store cannot be created, unless err. */
struct host *host_open(const struct dlk_store_type *type,
                       const struct dlk_conf *conf, struct dlk_error *err);
/* Stops the store, runs the loop until it has let go of everything (or aborts
 * after 10 s), and frees. */
void host_close(struct host *h);

struct dlk_lease *host_lease(struct host *h, const char *key, size_t len,
                             struct dlk_want want, const char *owner);
/* An operation for the lease, or for the key. Freed by host_op_free. */
struct dlk_op *host_op(struct host *h, enum dlk_op_kind kind,
                       struct dlk_lease *lease, const char *key, size_t len);
void host_submit(struct host *h, struct dlk_op *op);
void host_cancel(struct host *h, struct dlk_op *op, enum dlk_code ending);
void host_op_free(struct dlk_op *op);
/* The state of an op: over, and with which code. */
bool host_over(const struct dlk_op *op);
const struct dlk_error *host_error(const struct dlk_op *op);
/* Runs the loop until the op is over; false after the time. */
bool host_wait(struct host *h, struct dlk_op *op, int64_t ns);
/* Runs the loop for a time. */
void host_run(struct host *h, int64_t ns);
/* Runs it once, waiting no longer than that. */
void host_turn(struct host *h, int64_t ns);

#endif
