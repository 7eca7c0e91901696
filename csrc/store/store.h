/* What every store must do. A store is one admission queue per key, with hold
 * and release; its host (host.h) is the engine, which owns operations, leases,
 * deadlines, renewal and threads. A store is a shared object of its own: it
 * reaches the engine by the table of its host alone. store_fast.h has what it
 * may do besides, to be faster.
 *
 * Threads: one thread at a time, the owner of the engine's loop, calls the
 * store. Nothing blocks. `done`, `lost` and the others may be called from
 * inside submit, cancel and renew, and may call the store again before they
 * return.
 *
 * I1  Each submitted op is ended by exactly one `done`, at once or later.
 * I2  `cancel` comes at most once for an op, and not after its `done`. Its
 *     `done` then has the code `ending`, and nothing of the op is left on the
 *     server; or `unavailable`, if the server does not tell; or ok, if a grant
 *     crossed it, which the engine gives to its caller or releases.
 * I3  A request without an answer may have been done. The store finds out, or
 *     repeats it where that is harmless, or takes it back; else it answers
 *     `unavailable`. It never answers ok for what it does not know.
 * I4  Each lease given to `renew` gets exactly one of renewed, renew_failed,
 *     lost. A renewal never makes a hold that is gone.
 * I5  Holders of a key fit beside each other by the rule of kit/admission.h,
 *     and waiters are granted in the order in which they came.
 * I6  A grant's fence is larger than each fence that the key had before.
 * I7  `sent` is the time before the request was written: the holder believes in
 *     its hold until sent + ttl, and the server keeps it longer.
 * I8  A release, renewal, extension or downgrade touches no hold of another.
 */
#ifndef DLK_STORE_STORE_H
#define DLK_STORE_STORE_H

#include "core/clock.h"
#include "core/list.h"
#include "core/value.h"
#include "store/host.h"
#include "store/store_fast.h"

#define DLK_STORE_ABI 15u
#define DLK_TAG_MAX 16
#define DLK_KEY_MAX 512
#define DLK_HOLDER_MAX 96
/* Every fence is below: more digits not every Lua has exactly. */
#define DLK_FENCE_END INT64_C(100000000000000)
/* So many holders, and so many waiters, in one INSPECT. */
#define DLK_SHOWN_MAX 1000
/* So many keys in one LIST, and names that are looked at in one go for it. */
#define DLK_PAGE_MAX 1000
/* ns that a store may wait for others (a server, a thread) when it stops; a
 * close whose time is over waits so long for it (see stop_wait). */
#define DLK_STOP_WAIT (200 * DLK_MS)

/* Each with what it needs, and its result. The ops of a lease need a hold that
 * the store granted to it; a renewal of it may be under way. */
enum dlk_op_kind {
  DLK_OP_ACQUIRE,   /* lease: a candidate; wait: queue up, else try once */
  DLK_OP_RELEASE,   /* lease. Done: ok, or lost if it was not ours */
  DLK_OP_EXTEND,    /* lease; ttl: the new one. Done: ok or lost */
  DLK_OP_PING,      /* connect if need be; result: round trip, seconds */
  DLK_OP_LOCKED,    /* key, names. result: bool */
  DLK_OP_DETACH,    /* lease, without another op under way; only where
                       `portable`, as the next two. result: string */
  DLK_OP_ATTACH,    /* text: such a string; lease: empty, to be filled */
  DLK_OP_PROLONG,   /* text: such a string, which stays good; ttl: from now on,
                       0: as it is, -1: its own. result: seconds left at least.
                       Done: ok or lost */
  DLK_OP_INSPECT,   /* key. result: as docs/reference.md, or nil */
  DLK_OP_LIST,      /* key: prefix; text: cursor; limit */
  DLK_OP_BREAK,     /* key */
  DLK_OP_REVOKE,    /* key */
  DLK_OP_GUARD,     /* lease; argv. result: tuple */
  DLK_OP_DOWNGRADE, /* lease: exclusive becomes shared */
  DLK_OP_LISTEN,    /* lease: `revoked` is to be called as soon as somebody
                       asks for it, or has asked; only where `listens` */
  DLK_OP_CHANGE     /* key: done when the holder is not the one of `fence` */
};

/* How much of a key is asked for. One rule serves every kind of lock:
 * exclusive is units 0; a reader is 1 unit with cap 0 (no limit); p permits
 * of a semaphore of n are p units with cap n. */
struct dlk_want {
  uint32_t units, cap;
};

/* One acquisition, from candidate to hold to its end. The engine allocates
 * it with the store's lease_size bytes behind `data` (zeroed, plain memory:
 * nothing in there may need freeing). */
struct dlk_lease {
  /* Fixed before the store sees it. */
  const char *key;
  size_t key_len;
  struct dlk_want want;
  const char *owner; /* who we are, for inspect and messages; NUL-ended */
  const char *value; /* what an election publishes, or NULL */
  size_t value_len;
  int64_t min_hold; /* ns from the grant; the key stays held at least so,
                       unless its RELEASE says `unused` */
  struct dlk_handoffs handoffs;
  int64_t ttl; /* for the next acquire, renew, extend; the engine changes it */
  /* Filled by the store before it calls done(ok) on ACQUIRE or ATTACH: */
  int64_t fence; /* I6 */
  int64_t sent;  /* I7; of the EXTEND that extended it, too */
  int64_t claim; /* 0; or the hold is sure only until then, and the engine
                    has it renewed for its ttl before that */
  void *data;    /* the store's */
};

struct dlk_op {
  enum dlk_op_kind kind;
  bool wait;            /* ACQUIRE: queue up */
  bool queued;          /* ACQUIRE: it waited for others of this process */
  bool renew;           /* DETACH, ATTACH: renew it; else its end stays */
  bool names;           /* LOCKED: `holder` is wanted too, where that costs
                           no more than one request. DETACH: the lease's owner
                           is a name of its own, which an attach keeps */
  bool unused;          /* RELEASE: nobody was given it: min_hold is nothing */
  enum dlk_code ending; /* why cancel was called: timeout, cancelled,
                           closed; DLK_OK before that */
  struct dlk_lease *lease;
  const char *key; /* as the lease's where there is one */
  size_t key_len;
  int64_t started;  /* when it was submitted */
  int64_t deadline; /* when the engine will call cancel */
  int64_t ttl;      /* EXTEND, PROLONG */
  int64_t fence;    /* CHANGE */
  const char *text; /* ATTACH, PROLONG, LIST; NUL-ended, NULL if none */
  size_t text_len;
  size_t limit; /* LIST */
  size_t argc;  /* GUARD */
  const char *const *argv;
  const size_t *argv_len;
  /* Filled by the store: */
  struct dlk_value *result;    /* the engine frees it */
  char holder[DLK_HOLDER_MAX]; /* who stood in the way, if known */
  void *data;                  /* the store's op_size zeroed bytes; what it
                                  allocates in there it frees before done */
};

struct dlk_store_type {
  uint32_t abi;
  const char *name;
  size_t op_size, lease_size;
  bool portable; /* it knows DETACH, ATTACH and PROLONG */
  bool listens;  /* it hears at once that a lease is asked for only after
                    LISTEN; others always do */
  /* ns, at most DLK_STOP_WAIT, that `stop` takes when nobody answers; a close
   * keeps them of its time. 0: what is not released is better waited for. */
  int64_t stop_wait;
  /* The prefix that is used for the one that was given; NULL: none was. Two
   * spellings of one prefix are one from here on, for all that compare them. */
  const char *(*prefix)(const char *given);
  /* Checks conf and allocates; no I/O, no loop yet. A fork may come between
   * this and the first submit: what is drawn at random here is the same in
   * every child, so nothing that must be unique is drawn here. */
  enum dlk_code (*create)(struct dlk_host *host, const struct dlk_conf *conf,
                          void **out, struct dlk_error *err);
  /* Begins an operation (I1). */
  void (*submit)(void *store, struct dlk_op *op);
  /* The engine no longer wants the op; op->ending says why (I2). Longer than
   * io_timeout the engine's caller does not wait; the op stays valid until
   * done. */
  void (*cancel)(void *store, struct dlk_op *op);
  /* Extends each of these holds by its ttl (I4); one write for all. A RELEASE
   * may be submitted while one is under way. */
  void (*renew)(void *store, struct dlk_lease *const *leases, size_t count);
  /* Closes connections and handles, then calls host->stopped, at once or later:
   * for a server's good-bye it waits no longer than DLK_STOP_WAIT. No operation
   * is submitted from now on. Some may be under way when the time for closing
   * is over (less stop_wait): the store ends them with done(closed) or forgets
   * them. */
  void (*stop)(void *store);
  /* Frees the store; after stopped, or if nothing was ever submitted. */
  void (*destroy)(void *store);
  /* What places another name beside the lock on a key when it is part of that
   * name, NUL-ended; NULL where names have no places. No I/O, from any thread;
   * prefix: conf's. */
  void (*tag)(const char *prefix, const char *key, size_t len,
              char out[DLK_TAG_MAX]);
  struct dlk_store_fast fast;
};

#endif
