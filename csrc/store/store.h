/* What every store implements, and what it may ask of its host.
 *
 * A store is one admission queue per key with hold and release; the engine
 * (its host) owns operations, leases, deadlines, renewal and threads. A store
 * is a shared object of its own that is handed a table (struct dlk_host) and
 * never reaches the engine by symbols; a simulation can be the host as well.
 *
 * Threads: every function of a store, and every call of the host but `post`, is
 * for the owner of the engine's loop: on changing threads, one at a time.
 * Nothing here may block. A store never calls Lua.
 *
 * Calling back (done, lost, ...) from inside submit, cancel or renew is
 * allowed; the store must then be in a state in which it may be called again.
 */
#ifndef DLK_STORE_STORE_H
#define DLK_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/list.h"
#include "core/option.h"
#include "core/post.h"
#include "core/secret.h"
#include "core/status.h"
#include "core/timer.h"
#include "core/value.h"

#define DLK_STORE_ABI 14u
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

struct uv_loop_s;

enum dlk_op_kind {
  DLK_OP_ACQUIRE,   /* lease: a candidate; wait: queue up, else try once */
  DLK_OP_RELEASE,   /* lease: a hold. Done: ok, or lost if it was not ours */
  DLK_OP_EXTEND,    /* lease; ttl: the new one. Done: ok or lost */
  DLK_OP_PING,      /* connect if need be; result: round trip, seconds */
  DLK_OP_LOCKED,    /* key, names. result: bool */
  DLK_OP_DETACH,    /* lease, for which nothing else is under way but a
                       renewal; where `portable`, as ATTACH. result: string */
  DLK_OP_ATTACH,    /* text: such a string; lease: empty, to be filled */
  DLK_OP_PROLONG,   /* text: such a string (portable stores only), which stays
                       good; ttl: from now on, 0: as it is, -1: its own.
                       result: seconds left at least. Done: ok or lost */
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
  /* How often the hold may be handed on locally in this process without the
   * store being asked; 0: never. Grows while others come to wait for it. */
  uint32_t handoffs;
  /* Filled by the store with the fence: so many above it (at most `handoffs`)
   * are set aside for those whom hand_over gives the hold to. */
  uint32_t spare;
  /* Who has waited in this process since before that moment came before
   * everybody who stands in the store's queue. The engine sets it when it asks;
   * the store may know a later one when it grants. */
  int64_t before;
  /* Changed by the engine: what the next acquire/renew/extend asks for. */
  int64_t ttl;
  /* Filled by the store before it calls done(ok) on ACQUIRE or ATTACH: */
  int64_t fence;
  int64_t sent;  /* when the request that got it (EXTEND: that extended
                    it) was sent; the engine counts ttl from here */
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

/* The host: the engine, or a simulation. */
struct dlk_host {
  uint32_t abi;
  int64_t (*now)(struct dlk_host *host);
  void (*random)(struct dlk_host *host, void *out, size_t n);
  /* Arms (or moves) and disarms; a timer fires once, by the owner. A
   * zeroed timer with `fire` set is ready for use. */
  void (*timer_set)(struct dlk_host *host, struct dlk_timer *timer, int64_t at);
  void (*timer_clear)(struct dlk_host *host, struct dlk_timer *timer);
  /* Ends an operation, exactly once for each submit. err NULL: ok. An error
   * with an empty text gets the engine's standard sentence for its code
   * (busy and timeout name op->holder). The op may be gone afterwards. An
   * ACQUIRE that is ok although cancel was called is allowed (a grant crossed
   * it): the engine gives it to the caller or releases it. */
  void (*done)(struct dlk_host *host, struct dlk_op *op,
               const struct dlk_error *err);
  /* The answer to renew, exactly one of these three for each lease: */
  void (*renewed)(struct dlk_host *host, struct dlk_lease *lease, int64_t sent);
  void (*renew_failed)(struct dlk_host *host, struct dlk_lease *lease);
  /* Also at any time a hold is seen to be gone (broken, session expired). A
   * lease that the engine no longer holds is ignored. why: a constant. */
  void (*lost)(struct dlk_host *host, struct dlk_lease *lease, const char *why);
  void (*revoked)(struct dlk_host *host, struct dlk_lease *lease);
  /* Every lease of this store is due for renewal now, but those that are not
   * to be renewed: what holds them may be another server than the one that
   * granted them. */
  void (*hurry)(struct dlk_host *host);
  /* No lease of this store is held past this time, whatever its own deadline
   * (a session's end). DLK_FOREVER at first. */
  void (*horizon)(struct dlk_host *host, int64_t until);
  /* For the user's on_event: kind is a short word. Nothing, if there is none.
   */
  void (*event)(struct dlk_host *host, const char *kind, const char *text);
  /* While the count is above 0 the loop is driven even when nobody waits:
   * for clean-up in the background. Operations count by themselves. */
  void (*busy)(struct dlk_host *host, int delta);
  /* Has the renewal thread wake up when fd is readable and nobody drives, while
   * leases are held (messages such as `broken`). fd -1: no more. */
  void (*watch)(struct dlk_host *host, int fd);
  /* Any thread: have the owner run post->run soon. */
  void (*post)(struct dlk_host *host, struct dlk_post *post);
  /* The loop, valid from the first submit to `stopped`. */
  struct uv_loop_s *(*loop)(struct dlk_host *host);
  /* Nothing of the store is left in the loop, no thread of it will post. */
  void (*stopped)(struct dlk_host *host);
};

struct dlk_addr {
  const char *host; /* name, IPv4 or IPv6 literal without brackets */
  uint16_t port;    /* 0: the store's default */
};

/* What open() was told. Strings live as long as the store. */
struct dlk_conf {
  const char *shown;  /* the URL without secrets, for messages */
  const char *scheme; /* "redis", "redis+unix", ... */
  const struct dlk_addr *hosts;
  size_t host_count;
  const char *path;          /* decoded: "/0", "/chroot", "/dir"; "" if none */
  const char *username;      /* NULL if none */
  const char *password;      /* NULL if none; a secret: what it is at first */
  struct dlk_secret *secret; /* NULL, or it may change while the store is used;
                                a store that takes no changes heeds `password`
                                alone. What is refused is an event `denied` */
  const char *prefix;        /* what the type's `prefix` made of it */
  int64_t connect_timeout, io_timeout;
  struct dlk_options options; /* the store's own; `create` checks them */
  bool quiet; /* the engine's: there is nobody for the events of the store */
};

struct dlk_store_type {
  uint32_t abi;
  const char *name;
  size_t op_size, lease_size;
  bool portable; /* it knows DETACH and ATTACH */
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
  void (*submit)(void *store, struct dlk_op *op);
  /* Write now what submit only queued; NULL if there is nothing to write.
   * Otherwise it leaves when the loop next goes to sleep. */
  void (*flush)(void *store);
  /* The owner has nothing to do for DLK_AWAIT_MAX but to wait for the one thing
   * that is under way: an exception from the rule that nothing here blocks. A
   * store that has one answer to come, on a connection that stands, reads from
   * that, for no longer, and not past a signal. True: something came. False:
   * nothing did, or it cannot tell where it would come from: the loop has to be
   * run. NULL: always so. */
  bool (*await)(void *store);
  /* Whether submit and flush take no longer than writing to a connection that
   * stands, so that a thread that must not be held up may call them; NULL:
   * no. */
  bool (*prompt)(void *store);
  /* The engine does not want it any longer (op->ending says why). The store
   * takes back what it put on the server and then calls done: with the
   * code `ending` (and nothing left behind), or with what stood in the way
   * (`unavailable` if the server did not answer). If that takes longer than
   * io_timeout the engine has long told its caller; the op stays valid until
   * done. Called at most once for an op. */
  void (*cancel)(void *store, struct dlk_op *op);
  /* Extend each of these holds by its ttl; one write for all. Must never
   * create a hold that is gone. RELEASE may be submitted while one is
   * under way. */
  void (*renew)(void *store, struct dlk_lease *const *leases, size_t count);
  /* What `from` holds is held by `to` from now on, on the server under the same
   * name; NULL if the store cannot do that. `from` names nothing any more.
   * `to` is new to the store; its fence, spare and sent are filled in. Nothing
   * is under way for either, but perhaps a renewal of `from`, to be answered as
   * any other. A store that knows `from` to be gone sets its spare to 0. */
  void (*hand_over)(void *store, struct dlk_lease *from, struct dlk_lease *to);
  /* Close connections and handles; calls host->stopped, at once or later: what
   * it waits for that may never come (a server's good-bye) it waits for no
   * longer than DLK_STOP_WAIT. Normally no operation is under way. When the
   * time for closing is over (less stop_wait) there may be some: the store ends
   * them with done(closed) or forgets them. No operation is submitted from now
   * on. */
  void (*stop)(void *store);
  /* Frees the store; after stopped, or if nothing was ever submitted. */
  void (*destroy)(void *store);
  /* What places another name beside the lock on a key when it is part of that
   * name, NUL-ended; NULL where names have no places. No I/O, from any thread;
   * prefix: conf's. */
  void (*tag)(const char *prefix, const char *key, size_t len,
              char out[DLK_TAG_MAX]);
};

#endif
