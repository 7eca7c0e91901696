/* What a store is given: its host (the engine, or a simulation) and what open()
 * was told. Every call of the host is for the owner of the loop, as the store's
 * own functions are, but `post`, which any thread may call. */
#ifndef DLK_STORE_HOST_H
#define DLK_STORE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/option.h"
#include "core/post.h"
#include "core/secret.h"
#include "core/status.h"
#include "core/timer.h"

struct dlk_lease;
struct dlk_op;
struct uv_loop_s;

/* I1 … I8: the numbered promises of store.h. */
struct dlk_host {
  uint32_t abi;
  int64_t (*now)(struct dlk_host *host);
  void (*random)(struct dlk_host *host, void *out, size_t n);
  /* Arms (or moves) and disarms; a timer fires once. A zeroed timer with `fire`
   * set is ready for use. */
  void (*timer_set)(struct dlk_host *host, struct dlk_timer *timer, int64_t at);
  void (*timer_clear)(struct dlk_host *host, struct dlk_timer *timer);
  /* Ends an operation (I1), which may be gone afterwards. err NULL: ok. An
   * error with an empty text gets the engine's standard sentence for its code
   * (busy and timeout name op->holder). */
  void (*done)(struct dlk_host *host, struct dlk_op *op,
               const struct dlk_error *err);
  /* The answers to renew (I4). `lost` also comes at any time a hold is seen to
   * be gone (broken, session expired); a lease that the engine no longer holds
   * is ignored. why: a constant. */
  void (*renewed)(struct dlk_host *host, struct dlk_lease *lease, int64_t sent);
  void (*renew_failed)(struct dlk_host *host, struct dlk_lease *lease);
  void (*lost)(struct dlk_host *host, struct dlk_lease *lease, const char *why);
  /* Somebody asked for the lease. */
  void (*revoked)(struct dlk_host *host, struct dlk_lease *lease);
  /* Makes every renewed lease of this store due now: another server may hold
   * them than the one that granted them. */
  void (*hurry)(struct dlk_host *host);
  /* No lease of this store is held past this time, whatever its own deadline
   * (a session's end). DLK_FOREVER at first. */
  void (*horizon)(struct dlk_host *host, int64_t until);
  /* For the user's on_event, if there is one: kind is a short word. */
  void (*event)(struct dlk_host *host, const char *kind, const char *text);
  /* While the count is above 0 the loop is driven even when nobody waits:
   * for clean-up in the background. Operations count by themselves. */
  void (*busy)(struct dlk_host *host, int delta);
  /* Wakes the renewal thread when fd is readable and nobody drives, while
   * leases are held (messages such as `broken`). fd -1: no more. */
  void (*watch)(struct dlk_host *host, int fd);
  /* Has the owner run post->run soon. */
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
  const char *path;     /* decoded: "/0", "/chroot", "/dir"; "" if none */
  const char *username; /* NULL if none */
  const char *password; /* NULL if none; a secret's first value */
  /* NULL, or it may change while the store is used; a store that takes no
   * changes heeds `password` alone. A refusal is an event `denied`. */
  struct dlk_secret *secret;
  const char *prefix; /* what the type's `prefix` made of it */
  int64_t connect_timeout, io_timeout;
  struct dlk_options options; /* the store's own; `create` checks them */
  bool quiet; /* the engine's: nobody hears the store's events */
};

#endif
