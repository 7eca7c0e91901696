/* A link on which nothing moves by itself, in net.c's place: requests wait
 * until the program writes them, and end as it says. */
#ifndef SPEC_SIM_STILL_LINK_H
#define SPEC_SIM_STILL_LINK_H

#include "store/redis/conn/net.h"

#define STILL_MOST 4096

struct still_link {
  struct dlk_redis_link link; /* first */
  const struct dlk_redis_link_events *events;
  void *arg;
  struct dlk_list waiting; /* not written yet */
  struct {
    int id;
    struct dlk_redis_req *req;
  } written[STILL_MOST];
  size_t count; /* of those */
  bool up, retreating;
  bool wanted;     /* messages */
  int wanted_slot; /* the last one */
  bool subscribed;
  bool sharded;                               /* by slot, as follows */
  struct dlk_redis_slots asked, acknowledged; /* of what was subscribed to */
  /* Before a request waits, and when the link is given up; may be NULL. */
  void (*submits)(struct still_link *s, struct dlk_redis_req *req);
  void (*destroys)(struct still_link *s);
};

/* The rest of a link that is all zeros. */
void still_init(struct still_link *s,
                const struct dlk_redis_link_events *events, void *arg);
size_t still_waiting(const struct still_link *s);
/* Writes the first that waits. */
struct dlk_redis_req *still_write(struct still_link *s, int id, int64_t now,
                                  struct dlk_buf *out);
/* Takes the i-th that was written out of the list. */
struct dlk_redis_req *still_take(struct still_link *s, size_t i);
/* Ends the i-th that was written: its connection is lost. */
void still_lose(struct still_link *s, size_t i, enum dlk_code code);
/* Ends those that wait now, but no later ones. */
void still_refuse(struct still_link *s, enum dlk_code code);

#endif
