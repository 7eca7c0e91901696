/* What every store must do. A store is one admission queue per key, with hold
 * and release. Its host (host.h) owns operations, leases, deadlines, renewal
 * and threads. A store is a shared object of its own, and reaches the engine by
 * its host's table alone. store_fast.h has what it may do to be faster.
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
 *     `unavailable`. It never answers ok for what it does not know.
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

#define DLK_STORE_ABI 15u
#define DLK_TAG_MAX 16
#define DLK_KEY_MAX 512
#define DLK_HOLDER_MAX 96
/* Not every Lua has longer integers. */
#define DLK_FENCE_END INT64_C(100000000000000)
/* Holders, and waiters, in one INSPECT. */
#define DLK_SHOWN_MAX 1000
/* Keys in one LIST, and names looked at in one go. */
#define DLK_PAGE_MAX 1000
/* ns that a store may wait for a server or a thread when it stops. */
#define DLK_STOP_WAIT (200 * DLK_MS)

/* What each needs and gives. The ops of a lease need its hold; a renewal may be
 * under way. */
enum dlk_op_kind {
  DLK_OP_ACQUIRE,   /* lease: a candidate; wait: queue up */
  DLK_OP_RELEASE,   /* lease. ok, or lost if it was not ours */
  DLK_OP_EXTEND,    /* lease; ttl: the new one. ok or lost */
  DLK_OP_PING,      /* connects if need be; result: round trip, seconds */
  DLK_OP_LOCKED,    /* key, names. result: bool */
  DLK_OP_DETACH,    /* lease, no other op under way; needs `portable`. result:
                       string */
  DLK_OP_ATTACH,    /* text: that string; lease: to be filled */
  DLK_OP_PROLONG,   /* text: that string, which stays good; ttl: from now on, 0:
                       as it is, -1: its own. result: least seconds left */
  DLK_OP_INSPECT,   /* key. result: see docs/reference.md, or nil */
  DLK_OP_LIST,      /* key: prefix; text: cursor; limit */
  DLK_OP_BREAK,     /* key */
  DLK_OP_REVOKE,    /* key */
  DLK_OP_GUARD,     /* lease; argv. result: tuple */
  DLK_OP_DOWNGRADE, /* lease: exclusive becomes shared */
  DLK_OP_LISTEN,    /* lease: `revoked` comes as soon as it is asked for; needs
                       `listens` */
  DLK_OP_CHANGE     /* key: done when the holder is not the one of `fence` */
};

/* How much of a key is asked for. Exclusive is units 0, a reader 1 unit of cap
 * 0 (no limit); p permits of a semaphore of n are p units of cap n. */
struct dlk_want {
  uint32_t units, cap;
};

/* One acquisition, from candidate to its end. The engine allocates it with
 * lease_size zeroed bytes of the store, which must need no freeing. */
struct dlk_lease {
  /* Fixed before the store sees it: */
  const char *key;
  size_t key_len;
  struct dlk_want want;
  const char *owner; /* our name, NUL-ended */
  const char *value; /* an election's, or NULL */
  size_t value_len;
  int64_t min_hold; /* ns from the grant that the key stays held, unless its
                       RELEASE is `unused` */
  struct dlk_handoffs handoffs;
  int64_t ttl; /* of the next request; the engine changes it */
  /* Filled by the store before done(ok) on ACQUIRE or ATTACH: */
  int64_t fence; /* I6 */
  int64_t sent;  /* I7; an EXTEND sets it, too */
  int64_t claim; /* 0, or the hold is sure until then only: the engine renews it
                    before */
  void *data;    /* the store's */
};

struct dlk_op {
  enum dlk_op_kind kind;
  bool wait;   /* ACQUIRE */
  bool queued; /* ACQUIRE: it waited here before */
  bool renew;  /* DETACH, ATTACH: renew it; else its end stays */
  bool names;  /* LOCKED: `holder` is wanted, if one request does. DETACH: the
                  owner is a name of its own, kept by an attach */
  bool unused; /* RELEASE: without min_hold */
  enum dlk_code ending; /* why cancel was called */
  struct dlk_lease *lease;
  const char *key; /* the lease's, if there is one */
  size_t key_len;
  int64_t started;
  int64_t deadline; /* of the engine's cancel */
  int64_t ttl;      /* EXTEND, PROLONG */
  int64_t fence;    /* CHANGE */
  const char *text; /* ATTACH, PROLONG, LIST; NUL-ended, or NULL */
  size_t text_len;
  size_t limit; /* LIST */
  size_t argc;  /* GUARD */
  const char *const *argv;
  const size_t *argv_len;
  /* Filled by the store: */
  struct dlk_value *result;    /* the engine frees it */
  char holder[DLK_HOLDER_MAX]; /* in the way, if known */
  void *data; /* op_size zeroed bytes; the store frees what is in there before
                 done */
};

struct dlk_store_type {
  uint32_t abi;
  const char *name;
  size_t op_size, lease_size;
  bool portable; /* knows DETACH, ATTACH, PROLONG */
  bool listens;  /* hears of a revoke at once only after LISTEN */
  /* ns of `stop` when nobody answers, at most DLK_STOP_WAIT. A close keeps them
   * of its time. 0: waiting for releases is better. */
  int64_t stop_wait;
  /* Returns the prefix's normal form; given may be NULL. All comparisons use
   * it. */
  const char *(*prefix)(const char *given);
  /* Checks conf and allocates; no I/O. A fork may come before the first submit:
   * every child has what is drawn at random here, so nothing unique is. */
  enum dlk_code (*create)(struct dlk_host *host, const struct dlk_conf *conf,
                          void **out, struct dlk_error *err);
  void (*submit)(void *store, struct dlk_op *op);
  /* I2. The caller waits no longer than io_timeout; the op stays valid until
   * done. */
  void (*cancel)(void *store, struct dlk_op *op);
  /* Extends each hold by its ttl (I4), with one write. A RELEASE may come
   * meanwhile. */
  void (*renew)(void *store, struct dlk_lease *const *leases, size_t count);
  /* Closes connections and handles, then calls host->stopped, at once or within
   * DLK_STOP_WAIT. No op is submitted from now on. The store ends those under
   * way with done(closed), or forgets them. */
  void (*stop)(void *store);
  /* After stopped, or if nothing was submitted. */
  void (*destroy)(void *store);
  /* What places a name beside key's lock when it is part of that name,
   * NUL-ended; NULL where names have no places. No I/O, any thread; prefix:
   * conf's. */
  void (*tag)(const char *prefix, const char *key, size_t len,
              char out[DLK_TAG_MAX]);
  struct dlk_store_fast fast;
};

#endif
