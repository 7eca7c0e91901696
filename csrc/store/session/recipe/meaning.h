/* What an answer means: one table for every kind of request. */
#ifndef DLK_STORE_SESSION_RECIPE_MEANING_H
#define DLK_STORE_SESSION_RECIPE_MEANING_H

#include "store/session/driver.h"

/* What a request is sent for. */
enum dlk_ss_purpose {
  DLK_SS_FOR_NODE,      /* create: a contender's own node */
  DLK_SS_FOR_WATCHED,   /* create: a lock's node to watch, and those above */
  DLK_SS_FOR_SETTLING,  /* a fresh list, and the reads behind it */
  DLK_SS_FOR_PLACE,     /* list, or watch, that a place is judged from */
  DLK_SS_FOR_OWN,       /* read, watch or check of a hold's own node */
  DLK_SS_FOR_DELETE,    /* delete: a contender's own node */
  DLK_SS_FOR_READ,      /* any read of a query */
  DLK_SS_FOR_ACT,       /* a write of a query that nobody may do twice */
  DLK_SS_FOR_DOWNGRADE, /* set: of what was read before, by its version */
  DLK_SS_PURPOSES
};

enum dlk_ss_meaning {
  DLK_SS_ANSWERED, /* by what the answer says */
  DLK_SS_MISSING,  /* what it is about is not there; that is known */
  DLK_SS_CROSSED,  /* not done: somebody wrote since it was read */
  DLK_SS_REFUSED,  /* not done, and would not be: the op ends (dlk_ss_code) */
  DLK_SS_REPEAT,   /* nothing is known: sent again, soon or when connected,
                      until the op is withdrawn */
  DLK_SS_INSIST,   /* the same until it is known or the session is over,
                      though the op may have ended */
  DLK_SS_SETTLE,   /* it may be done: found out by reading, as long as that */
  DLK_SS_UNSURE    /* it may be done, and nothing can tell: the op ends */
};

enum dlk_ss_meaning dlk_ss_meaning(enum dlk_ss_purpose purpose,
                                   enum dlk_ss_rc rc);
/* What became of it must be known (INSIST, SETTLE), whoever still waits. */
bool dlk_ss_until_known(enum dlk_ss_purpose purpose);
/* It must not be sent a second time (UNSURE). */
bool dlk_ss_only_once(enum dlk_ss_purpose purpose);
/* What an op is told when it was refused. */
enum dlk_code dlk_ss_code(enum dlk_ss_rc rc);
/* What an op is told that ends before anything is known: what its caller asked
 * for, else `unavailable`. */
enum dlk_code dlk_ss_unanswered(const struct dlk_op *op);

#endif
