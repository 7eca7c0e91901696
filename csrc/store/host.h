/* What a store is given: its host (the engine, or a simulation) and what open()
 * was told. Only the loop's owner calls the host, except `post`. */
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

/* I1 … I8: see store.h. */
struct dlk_host {
  uint32_t abi;
  int64_t (*now)(struct dlk_host *host);
  void (*random)(struct dlk_host *host, void *out, size_t n);
  /* A timer fires once, and may be moved. A zeroed one with `fire` set is
   * ready. */
  void (*timer_set)(struct dlk_host *host, struct dlk_timer *timer, int64_t at);
  void (*timer_clear)(struct dlk_host *host, struct dlk_timer *timer);
  /* Ends an op (I1), which may be gone then. err NULL: ok. An empty text gets
   * the engine's sentence for the code; busy and timeout name op->holder. */
  void (*done)(struct dlk_host *host, struct dlk_op *op,
               const struct dlk_error *err);
  /* Answers to renew (I4). `lost` also comes whenever a hold is seen to be
   * gone; of one that the engine has ended it is ignored. why: a constant. */
  void (*renewed)(struct dlk_host *host, struct dlk_lease *lease, int64_t sent);
  void (*renew_failed)(struct dlk_host *host, struct dlk_lease *lease);
  void (*lost)(struct dlk_host *host, struct dlk_lease *lease, const char *why);
  void (*revoked)(struct dlk_host *host, struct dlk_lease *lease);
  /* Makes all renewals due: another server may have the leases. */
  void (*hurry)(struct dlk_host *host);
  /* No lease is held longer. DLK_FOREVER at first. */
  void (*horizon)(struct dlk_host *host, int64_t until);
  /* For on_event; kind is a short word. */
  void (*event)(struct dlk_host *host, const char *kind, const char *text);
  /* Above 0 the loop runs for work in the background. Ops count by themselves.
   */
  void (*busy)(struct dlk_host *host, int delta);
  /* While leases are held, a readable fd wakes the renewal thread. -1: none. */
  void (*watch)(struct dlk_host *host, int fd);
  /* For any thread: the owner runs it soon. */
  void (*post)(struct dlk_host *host, struct dlk_post *post);
  /* Valid from the first submit to `stopped`. */
  struct uv_loop_s *(*loop)(struct dlk_host *host);
  /* Nothing of it is left in the loop, and none of its threads posts. */
  void (*stopped)(struct dlk_host *host);
};

struct dlk_addr {
  const char *host; /* name or literal, IPv6 without brackets */
  uint16_t port;    /* 0: the store's default */
};

/* Strings live as long as the store. */
struct dlk_conf {
  const char *shown; /* the URL without secrets */
  const char *scheme;
  const struct dlk_addr *hosts;
  size_t host_count;
  const char *path;     /* decoded: "/0", "/dir", "" */
  const char *username; /* or NULL */
  const char *password; /* a secret's first value, or NULL */
  /* NULL, or the password may change. A refusal is an event `denied`. */
  struct dlk_secret *secret;
  const char *prefix;
  int64_t connect_timeout, io_timeout;
  struct dlk_options options;
  bool quiet; /* for the engine */
};

/* Why open() fails: "etcd://host: why". Returns code. */
static inline enum dlk_code dlk_conf_refuse(struct dlk_error *err,
                                            enum dlk_code code,
                                            const struct dlk_conf *conf,
                                            const char *why) {
  return dlk_error_set(err, code, "%s: %s", conf->shown, why);
}

#endif
