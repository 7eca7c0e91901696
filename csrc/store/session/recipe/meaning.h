/* What an answer means: one table for every kind of request. */
#ifndef DLK_STORE_SESSION_RECIPE_MEANING_H
#define DLK_STORE_SESSION_RECIPE_MEANING_H

#include "store/session/driver.h"

/* What a request is sent for. */
enum dlk_zk_purpose {
  DLK_ZK_FOR_NODE,      /* create: a contender's own node */
  DLK_ZK_FOR_WATCHED,   /* create: a lock's node to watch, and those above */
  DLK_ZK_FOR_SETTLING,  /* a fresh list, and the reads behind it */
  DLK_ZK_FOR_PLACE,     /* list, or watch, that a place is judged from */
  DLK_ZK_FOR_OWN,       /* read, watch or check of a hold's own node */
  DLK_ZK_FOR_DELETE,    /* delete: a contender's own node */
  DLK_ZK_FOR_READ,      /* any read of a query */
  DLK_ZK_FOR_ACT,       /* a write of a query that nobody may do twice */
  DLK_ZK_FOR_DOWNGRADE, /* set: of what was read before, by its version */
  DLK_ZK_PURPOSES
};

enum dlk_zk_meaning {
  DLK_ZK_ANSWERED, /* by what the answer says */
  DLK_ZK_MISSING,  /* what it is about is not there; that is known */
  DLK_ZK_CROSSED,  /* not done: somebody wrote since it was read */
  DLK_ZK_REFUSED,  /* not done, and would not be: the op ends (dlk_zk_code) */
  DLK_ZK_REPEAT,   /* nothing is known: sent again, soon or when connected,
                      until the op is withdrawn */
  DLK_ZK_INSIST,   /* the same until it is known or the session is over,
                      though the op may have ended */
  DLK_ZK_SETTLE,   /* it may be done: found out by reading, as long as that */
  DLK_ZK_UNSURE    /* it may be done, and nothing can tell: the op ends */
};

enum dlk_zk_meaning dlk_zk_meaning(enum dlk_zk_purpose purpose,
                                   enum dlk_zk_rc rc);
/* What became of it must be known (INSIST, SETTLE), whoever still waits. */
bool dlk_zk_until_known(enum dlk_zk_purpose purpose);
/* It must not be sent a second time (UNSURE). */
bool dlk_zk_only_once(enum dlk_zk_purpose purpose);
/* What an op is told when it was refused. */
enum dlk_code dlk_zk_code(enum dlk_zk_rc rc);
/* What an op is told that ends before anything is known: what its caller asked
 * for, else `unavailable`. */
enum dlk_code dlk_zk_unanswered(const struct dlk_op *op);

#endif
