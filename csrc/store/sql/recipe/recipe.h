/* The recipe of stores on SQL databases. It knows statements by their numbers
 * and connections by worker.h, and no client library. */
#ifndef DLK_STORE_SQL_RECIPE_RECIPE_H
#define DLK_STORE_SQL_RECIPE_RECIPE_H

#include "core/map.h"
#include "core/trace.h"
#include "store/sql/client/place.h"
#include "store/sql/client/worker.h"
#include "store/store.h"

#define DLK_SQL_TOKEN 16 /* bytes; the last 8 name the client */
#define DLK_SQL_CLIENT 8
#define DLK_SQL_CHANNEL 32

/* A: acquires, releases, administration. B: renewals and notices. */
enum { DLK_SQL_A, DLK_SQL_B };

struct dlk_sql_store {
  struct dlk_host *host;
  struct dlk_conf conf;
  const struct dlk_sql_dialect *dialect;
  struct dlk_sql_place places[2];
  bool deaf; /* B hears no notices, by its options */
  char *prefix;
  bool begun, stopping;
  int hears; /* 1: notices come, 0: none do, -1: B is not open */
  unsigned char client[DLK_SQL_CLIENT];
  char channel[DLK_SQL_CHANNEL];
  struct dlk_sql_worker *workers[2];
  struct dlk_map tokens; /* of waits and holds: dlk_sql_hold.node */
  struct dlk_list tries, orphans;
  size_t listeners;      /* waits, and holds with on_revoke */
  struct dlk_list heeds; /* holds that ask whether they are asked for */
  struct dlk_timer heed;
  bool heeding; /* such a request is under way */
  int64_t swept, clock_told;
  int renews_on; /* the other worker after one that could not connect */
  struct dlk_timer stop;
};

/* lease->data */
struct dlk_sql_hold {
  struct dlk_sql_store *store;
  struct dlk_lease *lease;
  struct dlk_sql_try *waiting; /* its acquire; NULL: it is held */
  struct dlk_map_node node;
  bool known; /* node is in the map */
  unsigned char token[DLK_SQL_TOKEN];
  char owner[DLK_HOLDER_MAX]; /* of an attached lease that keeps it */
  int64_t granted, min_end;   /* the server keeps it so long at least */
  int64_t max_end;            /* and no longer */
  bool renewing, broken;
  bool listens; /* counted in store->listeners */
  bool heeds;   /* `heed` is in store->heeds */
  struct dlk_list heed;
};

/* What a request without an answer means; see acquire.c. */
enum dlk_sql_lost { DLK_SQL_AGAIN, DLK_SQL_NEW_TOKEN, DLK_SQL_REPORT };

struct dlk_sql_try;

/* One kind of request. */
struct dlk_sql_step {
  enum dlk_sql_statement statement;
  int worker;
  enum dlk_sql_lost lost;
  void (*put)(struct dlk_sql_try *t, struct dlk_sql_call *call);
  void (*answer)(struct dlk_sql_try *t, const struct dlk_sql_call *call);
  const char *deed; /* of REPORT: what may have been done */
  /* Of an acquire: no answer says what was done; there is news of its place. */
  void (*anew)(struct dlk_sql_try *t);
  void (*hint)(struct dlk_sql_try *t);
};

/* op->data. States:
 *
 *   ASKING --answer--> WAITING --timer, notice--> ASKING    (acquire, change)
 *   ASKING --no answer--> PAUSED --timer--> ASKING          try.c, missing
 *   any --cancel--> LEAVING --answer--> ended      (an acquire with a place)
 *   any --dlk_sql_done--> ended */
enum dlk_sql_state {
  DLK_SQL_ASKING, /* `call` is under way */
  DLK_SQL_WAITING,
  DLK_SQL_PAUSED,
  DLK_SQL_LEAVING
};

struct dlk_sql_try {
  struct dlk_sql_store *store;
  struct dlk_op *op;
  struct dlk_list entry; /* in store->tries */
  enum dlk_sql_state state;
  const struct dlk_sql_step *step;
  struct dlk_sql_call *call; /* or NULL */
  struct dlk_timer timer;
  const struct dlk_error *trouble; /* kept: why there is no answer */
  int64_t pause;                   /* before the next attempt */
  bool unsure;   /* an attempt of unknown outcome went before */
  bool answered; /* the server said something */
  bool joins;    /* it may queue up */
  bool placed;   /* a place in the queue stands on the server */
  bool news;     /* a notice crossed a request */
  bool listens;  /* counted in store->listeners */
  int64_t place, rank, since;
};

static inline struct dlk_sql_try *dlk_sql_try_of(struct dlk_op *op) {
  return op->data;
}

static inline struct dlk_sql_hold *dlk_sql_hold_of(struct dlk_lease *lease) {
  return lease->data;
}

static inline int64_t dlk_sql_now(struct dlk_sql_store *s) {
  return s->host->now(s->host);
}

/* ---- try.c ---- */

void dlk_sql_send(struct dlk_sql_try *t, const struct dlk_sql_step *step);
/* Sends the step again then. */
void dlk_sql_send_at(struct dlk_sql_try *t, enum dlk_sql_state state,
                     int64_t at);
/* Ends the op; NULL: well. */
void dlk_sql_done(struct dlk_sql_try *t, const struct dlk_error *err);
void dlk_sql_done_code(struct dlk_sql_try *t, enum dlk_code code);
/* NULL: out of memory. */
void dlk_sql_finish(struct dlk_sql_try *t, struct dlk_value *v);
/* Ends an op by its `ending`, or by what stood in its way. */
void dlk_sql_give_up(struct dlk_sql_try *t);

/* ---- work.c ---- */

/* NULL: there is no memory or thread for it. */
struct dlk_sql_worker *dlk_sql_worker_of(struct dlk_sql_store *s, int which);
/* Counts who wants notices, and opens B for the first. */
void dlk_sql_listen(struct dlk_sql_store *s, bool *counted, bool wants);
void dlk_sql_put_key(struct dlk_sql_call *call, struct dlk_sql_store *s,
                     const char *key, size_t len);
/* In microseconds, rounded up. */
void dlk_sql_put_span(struct dlk_sql_call *call, int64_t ns);
/* A new token, in the map. */
void dlk_sql_token_draw(struct dlk_sql_hold *h);
/* `h` holds nothing any more, or waits no more. */
void dlk_sql_token_drop(struct dlk_sql_hold *h);
/* Takes a token back in the background. back: NULL, or the token that gets its
 * hold. */
void dlk_sql_orphan(struct dlk_sql_store *s, const struct dlk_lease *lease,
                    const unsigned char *token, const unsigned char *back);
void dlk_sql_orphans_end(struct dlk_sql_store *s);
/* ns until min_hold is over; at most 0: it is. */
int64_t dlk_sql_min_left(struct dlk_sql_hold *h);
/* ns for which the server is to keep it: the ttl, or the rest of min_hold. */
int64_t dlk_sql_span(struct dlk_sql_hold *h, int64_t ttl);

/* ---- heed.c ---- */

/* A hold with on_revoke, until its token is dropped. */
void dlk_sql_heed(struct dlk_sql_hold *h);

/* ---- hold.c ---- */

void dlk_sql_release(struct dlk_sql_try *t);
void dlk_sql_release_cancel(struct dlk_sql_try *t);
void dlk_sql_extend(struct dlk_sql_try *t);
void dlk_sql_listen_op(struct dlk_sql_try *t);
void dlk_sql_downgrade(struct dlk_sql_try *t);
void dlk_sql_publish(struct dlk_sql_try *t);
void dlk_sql_guard(struct dlk_sql_try *t);
void dlk_sql_renew(void *store, struct dlk_lease *const *leases, size_t count);

/* ---- attach.c ---- */

void dlk_sql_detach(struct dlk_sql_try *t);
void dlk_sql_attach(struct dlk_sql_try *t);
void dlk_sql_prolong(struct dlk_sql_try *t);
/* Gives the hold back to the token in op->text. */
void dlk_sql_undo_attach(struct dlk_sql_try *t);

/* ---- acquire.c ---- */

void dlk_sql_acquire(struct dlk_sql_try *t);
void dlk_sql_acquire_cancel(struct dlk_sql_try *t);

/* ---- admin.c ---- */

void dlk_sql_ping(struct dlk_sql_try *t);
void dlk_sql_locked(struct dlk_sql_try *t);
void dlk_sql_inspect(struct dlk_sql_try *t);
void dlk_sql_list(struct dlk_sql_try *t);
void dlk_sql_break(struct dlk_sql_try *t);
void dlk_sql_revoke(struct dlk_sql_try *t);
void dlk_sql_change(struct dlk_sql_try *t);

/* ---- store.c ---- */

const char *dlk_sql_prefix(const char *given);
/* Takes over the places; ok: all of them could be made. */
enum dlk_code dlk_sql_create(struct dlk_host *host, const struct dlk_conf *conf,
                             const struct dlk_sql_dialect *dialect, bool ok,
                             struct dlk_sql_place places[2], bool deaf,
                             void **out, struct dlk_error *err);
void dlk_sql_submit(void *store, struct dlk_op *op);
void dlk_sql_cancel(void *store, struct dlk_op *op);
void dlk_sql_stop(void *store);
void dlk_sql_destroy(void *store);

/* The type of a store with a dialect. */
#define DLK_SQL_STORE(NAME, SCRIPT, CREATE)                                    \
  {                                                                            \
    .abi = DLK_STORE_ABI, .name = (NAME), .schema = (SCRIPT),                  \
    .op_size = sizeof(struct dlk_sql_try),                                     \
    .lease_size = sizeof(struct dlk_sql_hold), .portable = true,               \
    .listens = true, .stop_wait = DLK_STOP_WAIT, .prefix = dlk_sql_prefix,     \
    .create = (CREATE), .submit = dlk_sql_submit, .cancel = dlk_sql_cancel,    \
    .renew = dlk_sql_renew, .stop = dlk_sql_stop, .destroy = dlk_sql_destroy   \
  }

#endif
