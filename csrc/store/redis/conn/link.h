/* The network as operations see it: requests go in, answers and
 * messages come out. conn.c and net.c implement it over sockets; a simulation
 * may implement it over anything. Everything runs in the thread that owns the
 * loop.
 *
 * Rules of the link:
 * - Requests are written in the order in which they were submitted, on one
 *   connection, and each is ended exactly once by `done`.
 * - ANSWERED: all replies came. UNSENT: nothing of it was ever written.
 *   UNKNOWN: it was written and the connection was lost: the server may or
 *   may not have executed it. Before anything else is written on the next
 *   connection, the server has dropped the old one (CLIENT KILL ID), so a
 *   request that follows an UNKNOWN one is executed after it or instead of
 *   it, never before (unless `may_linger`).
 * - `done` may submit (also the same request), withdraw, or end the wait for
 *   which the request was made; the request is out of the link's hands. */
#ifndef DLK_STORE_REDIS_CONN_LINK_H
#define DLK_STORE_REDIS_CONN_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/list.h"
#include "core/status.h"
#include "store/redis/wire/scripts.h"

struct redisReply;

#define DLK_REDIS_ANY_SLOT (-1)

enum dlk_redis_outcome {
  DLK_REDIS_ANSWERED,
  DLK_REDIS_UNSENT,
  DLK_REDIS_UNKNOWN
};

struct dlk_redis_answer {
  enum dlk_redis_outcome outcome;
  const struct redisReply *reply; /* ANSWERED: the last one, not an error */
  const char *refusal;            /* ANSWERED: the first error reply's text */
  const struct dlk_error *err;    /* not ANSWERED: why */
  /* ANSWERED, durable: fewer replicas than are wanted have what it wrote; */
  bool scarce;
  unsigned have, wanted;
};

struct dlk_redis_req {
  /* Set by who submits: */
  void (*encode)(struct dlk_redis_req *req, struct dlk_buf *out);
  void (*done)(struct dlk_redis_req *req, const struct dlk_redis_answer *a);
  /* Each reply as it comes, errors too; may be NULL. */
  void (*each)(struct dlk_redis_req *req, unsigned index,
               const struct redisReply *reply);
  unsigned replies; /* that `encode` asks for */
  int slot;         /* of all its keys; DLK_REDIS_ANY_SLOT: it has none */
  bool only_once;   /* it is not sent again if it ends as UNKNOWN */
  /* Set by who submits, or by `encode`: it counts only when replicas have what
   * it writes, if the link waits for them. It is answered when they do. */
  bool durable;
  /* Set by `encode`: AUTH is said first. Cleared when that was accepted: else
   * what the server says is not quoted, since it may repeat the password. */
  bool secret;
  /* Set by the link: */
  unsigned got;
  int64_t sent;            /* just before it was written */
  struct redisReply *kept; /* its answer, until the replicas are known */
  struct dlk_list entry;
};

struct dlk_redis_link {
  void (*submit)(struct dlk_redis_link *link, struct dlk_redis_req *req);
  /* True: it was not written and will not be; `done` is not called. */
  bool (*withdraw)(struct dlk_redis_link *link, struct dlk_redis_req *req);
  /* Wants messages about the locks of this slot from now on. `subscribed` is
   * called after each acknowledgement. Idempotent. */
  void (*subscribe)(struct dlk_redis_link *link, int slot);
  /* Whether that subscription stands; of any slot: whether one does. */
  bool (*subscribed)(struct dlk_redis_link *link, int slot);
  /* No wait and no hold is left: may end the subscription. */
  void (*unsubscribe)(struct dlk_redis_link *link);
  /* The server said that it cannot serve now: leave it alone for a moment,
   * then connect anew. */
  void (*retreat)(struct dlk_redis_link *link, const struct dlk_error *why);
  /* Writes what was submitted now, not when the loop next sleeps; NULL where
   * submit writes at once. */
  void (*flush)(struct dlk_redis_link *link);
  /* Blocks for DLK_AWAIT_MAX at most in reading the one answer that is to come;
   * false: nothing came, or there is not just one. NULL: never. */
  bool (*await)(struct dlk_redis_link *link);
  /* A connection stands, and flush would write to it; NULL: never. */
  bool (*prompt)(struct dlk_redis_link *link);
  void (*stop)(struct dlk_redis_link *link);
  void (*destroy)(struct dlk_redis_link *link);
  bool may_linger;      /* CLIENT KILL was refused: see above */
  bool served;          /* a connection was usable at least once */
  uint64_t connections; /* for commands: how many were usable so far; */
  uint64_t moves;       /* to another server process (`moved`) than before */
  /* What the server said when it refused the last attempt to connect, before
   * the next one failed or came about; NULL: it did not. */
  const struct dlk_error *refused;
};

/* Upcalls to its owner. */
struct dlk_redis_link_events {
  /* A server acknowledged the subscription for this slot, or for any. */
  void (*subscribed)(void *arg, int slot);
  /* The subscription could not be had. */
  void (*unsubscribed)(void *arg, int slot, const struct dlk_error *why);
  void (*message)(void *arg, const char *p, size_t len);
  /* A connection is usable, and its server is another process than the one
   * before: it has, or has not, what that one had. */
  void (*moved)(void *arg);
  /* Whether a hold or a wait is there, so that messages matter. */
  bool (*needed)(void *arg);
  void (*stopped)(void *arg);
};

#endif
