/* What a missing answer means: one table for all requests. */
#ifndef DLK_STORE_REDIS_OP_RULES_H
#define DLK_STORE_REDIS_OP_RULES_H

#include <stdbool.h>
#include <stdint.h>

/* What is known of a request. */
enum dlk_redis_verdict {
  DLK_REDIS_GOOD,     /* there is an answer */
  DLK_REDIS_NOT_DONE, /* certainly not executed; may be sent again */
  DLK_REDIS_UNSURE,   /* the connection was lost: executed, or not */
  DLK_REDIS_REFUSED,  /* sending it again is no use; executed? see `begun` */
  DLK_REDIS_SCARCE,   /* executed, but too few replicas have it */
  DLK_REDIS_WITHDRAWN /* never written: the caller does not want it any more */
};

/* What a request is for. The engine itself repeats renewals. */
enum dlk_redis_aim {
  DLK_REDIS_TO_TRY,       /* take a free lock */
  DLK_REDIS_TO_JOIN,      /* queue up, or keep the place */
  DLK_REDIS_TO_SUBSCRIBE, /* (no request: the link's) before queueing up */
  DLK_REDIS_TO_LEAVE,     /* the queue, and what was got there */
  DLK_REDIS_TO_RELEASE,
  DLK_REDIS_TO_KEEP, /* a grant, for its min_hold */
  DLK_REDIS_TO_EXTEND,
  DLK_REDIS_TO_DOWNGRADE,
  DLK_REDIS_TO_DETACH,
  DLK_REDIS_TO_ATTACH,
  DLK_REDIS_TO_WATCH,   /* ask for another holder, and be told of one */
  DLK_REDIS_TO_UNWATCH, /* be told no more */
  DLK_REDIS_TO_READ,
  DLK_REDIS_TO_REVOKE,
  DLK_REDIS_TO_BREAK,
  DLK_REDIS_TO_GUARD,
  DLK_REDIS_TO_TAKE_BACK, /* a token that is in nobody's hands: orphan.c */
  DLK_REDIS_AIMS
};

/* Until when it is sent again. */
enum dlk_redis_until {
  DLK_REDIS_NEVER,
  DLK_REDIS_ONCE,    /* more */
  DLK_REDIS_WAITING, /* while its caller waits for a lock or a change */
  DLK_REDIS_WANTED,  /* until its caller gives up */
  DLK_REDIS_STANDING /* until the server has forgotten the token by itself */
};

/* What becomes of what may stand on the server. */
enum dlk_redis_then {
  DLK_REDIS_LET_BE,
  DLK_REDIS_TAKE_BACK,  /* in the background, if it is not sent again */
  DLK_REDIS_NEW_TOKEN,  /* the same, and what is sent again has a new token */
  DLK_REDIS_LEAVE_NOW,  /* by a request, before the caller is told */
  DLK_REDIS_MAY_BE_DONE /* the caller is told that */
};

/* What the caller is told, unless it gave up its wait. */
enum dlk_redis_told {
  DLK_REDIS_SAY_LAST, /* what stood in the way */
  DLK_REDIS_SAY_LOST  /* that the lease is lost, if it ended meanwhile */
};

struct dlk_redis_rule {
  enum dlk_redis_until until;
  enum dlk_redis_then then;
  enum dlk_redis_told told;
};

struct dlk_redis_rule dlk_redis_rule(enum dlk_redis_aim aim,
                                     enum dlk_redis_verdict verdict);

#endif
