/* What every store must do. A store is one admission queue per key, with hold
 * and release. Its host (host.h) owns operations, leases, deadlines, renewal
 * and threads. A store is a shared object of its own, and reaches the engine by
 * its host's table alone.
 *
 * Only the owner of the engine's loop calls the store, and nothing blocks.
 * submit, cancel and renew may call `done`, `lost` and the others, and these
 * may call the store again before they return.
 *
 * I1  Exactly one `done` ends each submitted op, at once or later.
 * I2  `cancel` comes at most once for an op, and not after its `done`. Then
 *     `done` has the code `ending`, and nothing of the op is left on the
 *     server; or `unavailable`, without the server's word; or ok, if a grant
 *     crossed the cancel.
 * I3  A request without an answer may have been done. The store finds out,
 *     repeats it if that is harmless, or takes it back; else it answers
 *     `unavailable`, never ok.
 * I4  Each lease given to `renew` gets exactly one of renewed, renew_failed,
 *     lost. A renewal never makes a hold that is gone.
 * I5  Holders fit beside each other by kit/admission.h, and waiters are granted
 *     in the order in which they came.
 * I6  A grant's fence is larger than every earlier one of the key.
 * I7  `sent` is the time before the request was written: the holder believes in
 *     its hold until sent + ttl, and the server keeps it longer.
 * I8  A release, renewal, extension or downgrade touches no hold of another. */
#ifndef DLK_STORE_STORE_H
#define DLK_STORE_STORE_H

#include "core/clock.h"
#include "core/list.h"
#include "core/value.h"
#include "store/host.h"
#include "store/store_fast.h"

#define DLK_STORE_ABI 17u
#define DLK_TAG_MAX 16
#define DLK_KEY_MAX 512
#define DLK_HOLDER_MAX 96
/* Not every Lua has longer integers. */
#define DLK_FENCE_END INT64_C(100000000000000)
/* Holders, and waiters, in one INSPECT. */
#define DLK_SHOWN_MAX 1000
/* Keys in one LIST, and names read at once. */
#define DLK_PAGE_MAX 1000
/* ns that `stop` may wait for a server or a thread. */
#define DLK_STOP_WAIT (200 * DLK_MS)

/* The ops of a lease need its hold; a renewal may be under way. */
enum dlk_op_kind {
  DLK_OP_ACQUIRE,   /* lease; wait: queue up */
  DLK_OP_RELEASE,   /* lease. ok, or lost */
  DLK_OP_EXTEND,    /* lease; ttl: the new one. ok, or lost */
  DLK_OP_PING,      /* result: round trip in seconds */
  DLK_OP_LOCKED,    /* key, names. result: bool */
  DLK_OP_DETACH,    /* lease, no other op; needs `portable`. result: string */
  DLK_OP_ATTACH,    /* text: that string; lease: to be filled */
  DLK_OP_PROLONG,   /* text: that string; ttl: from now on, 0: as it is, -1: its
                       own. result: least seconds left */
  DLK_OP_INSPECT,   /* key. result: as in docs/reference.md, or nil */
  DLK_OP_LIST,      /* key: prefix; text: cursor; limit */
  DLK_OP_BREAK,     /* key */
  DLK_OP_REVOKE,    /* key */
  DLK_OP_GUARD,     /* lease; argv. result: tuple */
  DLK_OP_DOWNGRADE, /* lease: exclusive becomes shared */
  DLK_OP_LISTEN,    /* lease: `revoked` then comes at once; needs `listens` */
  DLK_OP_CHANGE,    /* key: done when `fence` does not hold it */
  DLK_OP_PUBLISH    /* lease; text: its value from now on. ok, or lost */
};

/* How much is asked for. Exclusive is units 0, a reader 1 unit of cap 0 (no
 * limit); p permits of a semaphore of n are p units of cap n, and never more.
 */
struct dlk_want {
  uint32_t units, cap;
};

/* One acquisition, from candidate to end, with lease_size zeroed bytes of the
 * store that need no freeing. */
struct dlk_lease {
  /* Fixed before the store sees it: */
  const char *key;
  size_t key_len;
  struct dlk_want want;
  const char *owner; /* NUL-ended */
  const char *value;
  size_t value_len;
  int64_t min_hold; /* ns from the grant; an `unused` RELEASE ignores it */
  struct dlk_handoffs handoffs;
  int64_t ttl; /* of the next request */
  /* Filled by the store before a grant's `done`: */
  int64_t fence; /* I6 */
  int64_t sent;  /* I7; also by EXTEND */
  int64_t claim; /* 0, or the hold is only sure until then: the engine renews it
                    before */
  void *data;
};

struct dlk_op {
  enum dlk_op_kind kind;
  bool wait;   /* ACQUIRE */
  bool queued; /* ACQUIRE, after a wait here */
  bool renew;  /* DETACH, ATTACH: else the end stays */
  bool names;  /* LOCKED: wants `holder`, if one request does. DETACH: an attach
                  keeps the owner, no engine's name */
  bool unused; /* RELEASE: no min_hold. ATTACH: its string will not be needed,
                  whether it is attached or not */
  enum dlk_code ending; /* cancel's reason */
  struct dlk_lease *lease;
  const char *key;
  size_t key_len;
  int64_t started;
  int64_t deadline;
  int64_t ttl;      /* EXTEND, PROLONG */
  int64_t fence;    /* CHANGE */
  const char *text; /* ATTACH, PROLONG, LIST, PUBLISH; NUL-ended. RELEASE: the
                       string that gets back what an ATTACH took from it, or
                       NULL */
  size_t text_len;
  size_t limit; /* LIST */
  size_t argc;  /* GUARD */
  const char *const *argv;
  const size_t *argv_len;
  /* Filled by the store: */
  struct dlk_value *result;    /* the engine frees it */
  char holder[DLK_HOLDER_MAX]; /* if known */
  void *data; /* op_size zeroed bytes; the store frees what they own */
};

struct dlk_store_type {
  uint32_t abi;
  const char *name;
  size_t op_size, lease_size;
  bool portable; /* has DETACH, ATTACH, PROLONG */
  bool listens;  /* needs LISTEN to hear of a revoke at once */
  /* ns of `stop` when nothing answers: a close keeps them of its time. 0:
   * waiting for releases is better. */
  int64_t stop_wait;
  /* The prefix's normal form, for all comparisons; given may be NULL. */
  const char *(*prefix)(const char *given);
  /* Checks and allocates; no I/O. A fork may come before the first submit, so
   * nothing unique is drawn here. */
  enum dlk_code (*create)(struct dlk_host *host, const struct dlk_conf *conf,
                          void **out, struct dlk_error *err);
  void (*submit)(void *store, struct dlk_op *op);
  /* I2. The caller waits for io_timeout at most; the op is valid until done. */
  void (*cancel)(void *store, struct dlk_op *op);
  /* I4, with one write for all. A RELEASE may come meanwhile. */
  void (*renew)(void *store, struct dlk_lease *const *leases, size_t count);
  /* Closes everything, then calls host->stopped, at once or within
   * DLK_STOP_WAIT. No op is submitted any more; the store ends those under way
   * with done(closed), or forgets them. */
  void (*stop)(void *store);
  void (*destroy)(void *store);
  /* What places a name beside key's lock when it is part of that name,
   * NUL-ended; or NULL. No I/O, any thread. */
  void (*tag)(const char *prefix, const char *key, size_t len,
              char out[DLK_TAG_MAX]);
  struct dlk_store_fast fast;
  const char *schema; /* SQL that makes its tables, or NULL */
};

#endif
