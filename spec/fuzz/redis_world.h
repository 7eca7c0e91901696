/* The world in which spec/fuzz/redis_store.c runs the store: a host with a
 * clock that it sets, and a link on which nothing moves by itself. Both look
 * whether the store keeps to what it owes them (store.h, link.h). */
#ifndef SPEC_FUZZ_REDIS_WORLD_H
#define SPEC_FUZZ_REDIS_WORLD_H

#include <hiredis/hiredis.h>

#include "core/heap.h"
#include "input.h"
#include "still_link.h"
#include "store/redis/op/try.h"
#include "store/redis/redis.h"
#include "store/redis/wire/codec.h"

#define LEASES 64
#define OPS 128

struct slot {
  struct dlk_lease lease; /* first */
  struct dlk_redis_hold hold;
  struct dlk_op *op; /* under way */
  bool held, renewing, used;
  char text[600];
};

struct asked {
  struct dlk_op op; /* first */
  struct dlk_redis_try try;
  struct slot *slot;
  bool over;
  char text[600];
};

struct world {
  struct dlk_host host;
  struct still_link link;
  void *store;
  struct dlk_heap timers;
  int64_t now;
  uint64_t random;
  int busy, open;
  bool stopped;
  struct slot slots[LEASES];
  struct asked asked[OPS];
  size_t slot_count, asked_count;
  char detached[600];
  size_t detached_len;
};

extern struct world w;

/* A world with a store that was never used. */
void world_begin(void);
/* Stops the store if it was used; nothing is left then. */
void world_end(void);
/* The connection is lost, and with it all requests that are there now. */
void world_lose(enum dlk_code code);

#endif
