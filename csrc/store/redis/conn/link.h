/* The network for operations: requests go in, answers and messages come out, in
 * the loop's thread. net.c implements it over sockets, the simulation without.
 *
 * I1  Requests are written on one connection in the order of submission. `done`
 *     ends each exactly once.
 * I2  ANSWERED: all replies came. UNSENT: nothing of it was written. UNKNOWN:
 *     it was written and the connection was lost; it may have run.
 * I3  The server has dropped a lost connection (CLIENT KILL ID) before the next
 *     one carries requests. So a request that follows an UNKNOWN one runs after
 *     it or instead of it, unless `may_linger`.
 * I4  `done` may submit its request again, withdraw others, or end its wait. */
#ifndef DLK_STORE_REDIS_CONN_LINK_H
#define DLK_STORE_REDIS_CONN_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/list.h"
#include "core/status.h"
#include "store/redis/wire/names.h"
#include "store/redis/wire/scripts.h"
#include "store/redis/wire/slots.h"

struct redisReply;

#define DLK_REDIS_ANY_SLOT (-1)
/* of `node`, or else of the one behind it */
#define DLK_REDIS_BY_NODE (-2)

enum dlk_redis_outcome {
  DLK_REDIS_ANSWERED,
  DLK_REDIS_UNSENT,
  DLK_REDIS_UNKNOWN
};

struct dlk_redis_answer {
  enum dlk_redis_outcome outcome;
  const struct redisReply *reply; /* ANSWERED: the last one, if no error */
  const char *refusal;            /* ANSWERED: the first error's text */
  const struct dlk_error *err;    /* not ANSWERED: why */
  /* durable: too few replicas have the write */
  bool scarce;
  unsigned have, wanted;
};

enum dlk_redis_form { DLK_REDIS_PLAIN, DLK_REDIS_CLASSIC, DLK_REDIS_SHARDED };

struct dlk_redis_req;
typedef void dlk_redis_encode(struct dlk_redis_req *req, struct dlk_buf *out);
typedef void dlk_redis_done_req(struct dlk_redis_req *req,
                                const struct dlk_redis_answer *a);

/* What a cluster's router knows of a request: see cluster.c. */
struct dlk_redis_route {
  void *node; /* NULL: it is parked, or is the router's own */
  dlk_redis_encode *encode;
  dlk_redis_done_req *done;
  int64_t since, at; /* first pause; its end, or 0 */
  uint8_t hops, pauses;
  bool asks; /* ASKING goes first */
};

struct dlk_redis_req {
  /* The submitter sets: */
  dlk_redis_encode *encode;
  dlk_redis_done_req *done;
  /* Takes each reply, errors too; may be NULL. */
  void (*each)(struct dlk_redis_req *req, unsigned index,
               const struct redisReply *reply);
  unsigned replies; /* the number that `encode` asks for */
  int slot;         /* of its keys, or DLK_REDIS_ANY_SLOT, _BY_NODE */
  char *node;       /* BY_NODE: an id, "" for the first; set to the real one */
  bool narrows;     /* it has a form with one key */
  bool only_once;   /* it is not sent again after UNKNOWN */
  /* Set by the submitter or `encode`: replicas must have its writes before it
   * is answered. */
  bool durable;
  /* Set by `encode` if AUTH goes first, cleared by its success. Meanwhile the
   * server's text is not quoted: it may repeat the password. */
  bool secret;
  /* The link sets: */
  unsigned got;
  int64_t sent;            /* the time before it was written */
  struct redisReply *kept; /* its answer, until the replicas confirm */
  bool narrow;             /* its form with one key is wanted */
  uint8_t form;            /* of the scripts: PLAIN, or by the router */
  struct dlk_redis_route route;
  struct dlk_list entry;
};

struct dlk_redis_link {
  void (*submit)(struct dlk_redis_link *link, struct dlk_redis_req *req);
  /* True: it will never be written; `done` is not called. */
  bool (*withdraw)(struct dlk_redis_link *link, struct dlk_redis_req *req);
  /* Wants messages of this slot's locks. `subscribed` follows each
   * acknowledgement. */
  void (*subscribe)(struct dlk_redis_link *link, int slot);
  bool (*subscribed)(struct dlk_redis_link *link, int slot);
  /* No wait and no hold is left. */
  void (*unsubscribe)(struct dlk_redis_link *link);
  /* The server cannot serve now: reconnects after a pause. */
  void (*retreat)(struct dlk_redis_link *link, const struct dlk_error *why);
  /* NULL: submit writes. */
  void (*flush)(struct dlk_redis_link *link);
  /* Blocks for DLK_AWAIT_MAX at most to read the only answer under way. False:
   * nothing came, or there is not just one. NULL: never. */
  bool (*await)(struct dlk_redis_link *link);
  /* True: a connection stands, and flush would write. NULL: never. */
  bool (*prompt)(struct dlk_redis_link *link);
  /* Goes on to the next node; false: it was the last one. NULL: there is only
   * one server. */
  bool (*next_node)(struct dlk_redis_link *link, char id[DLK_REDIS_NODE_ID]);
  void (*stop)(struct dlk_redis_link *link);
  void (*destroy)(struct dlk_redis_link *link);
  bool may_linger;      /* CLIENT KILL was refused (I3) */
  bool served;          /* a connection was usable once */
  uint64_t connections; /* usable ones for commands */
  uint64_t moves;       /* `moved` so far */
  /* Of a Redlock's node: its process, when that began by our clock, and whether
   * it keeps each write on disk. */
  const char *run_id;
  int64_t began;
  bool keeps;
  /* The server's refusal of the last attempt; NULL: none. */
  const struct dlk_error *refused;
};

/* The link calls its owner: */
struct dlk_redis_link_events {
  void (*subscribed)(void *arg, int slot);
  /* The subscription failed. */
  void (*unsubscribed)(void *arg, int slot, const struct dlk_error *why);
  void (*message)(void *arg, const char *p, size_t len);
  /* A connection is usable to another server process, which may lack what the
   * last one had. */
  void (*moved)(void *arg);
  /* True: a hold or a wait exists. */
  bool (*needed)(void *arg);
  /* Adds the slots that have one. */
  void (*slots)(void *arg, struct dlk_redis_slots *slots);
  void (*stopped)(void *arg);
};

#endif
