/* What an answer means: one table for all requests. */
#ifndef DLK_STORE_SESSION_RECIPE_MEANING_H
#define DLK_STORE_SESSION_RECIPE_MEANING_H

#include "store/session/driver.h"

enum dlk_ss_purpose {
  DLK_SS_FOR_NODE,     /* create: a contender's own node */
  DLK_SS_FOR_WATCHED,  /* create: a folder to watch */
  DLK_SS_FOR_SETTLING, /* a fresh list, and the reads behind */
  DLK_SS_FOR_PLACE,    /* list or watch that a place is judged by */
  DLK_SS_FOR_OWN,      /* read, watch or check of a hold's own node */
  DLK_SS_FOR_DELETE,
  DLK_SS_FOR_READ,      /* any read of a query */
  DLK_SS_FOR_ACT,       /* a query's write that nobody may do twice */
  DLK_SS_FOR_DOWNGRADE, /* set: by the version that was read */
  DLK_SS_PURPOSES
};

enum dlk_ss_meaning {
  DLK_SS_ANSWERED, /* as it says */
  DLK_SS_MISSING,  /* known not to exist */
  DLK_SS_CROSSED,  /* not done: written since it was read */
  DLK_SS_REFUSED,  /* not done, now or later (dlk_ss_code) */
  DLK_SS_REPEAT,   /* nothing known: again, until the op is withdrawn */
  DLK_SS_INSIST,   /* again until known or the session is over */
  DLK_SS_SETTLE,   /* may be done: found out by reading */
  DLK_SS_UNSURE    /* may be done, nothing tells */
};

enum dlk_ss_meaning dlk_ss_meaning(enum dlk_ss_purpose purpose,
                                   enum dlk_ss_rc rc);
/* Must become known (INSIST, SETTLE). */
bool dlk_ss_until_known(enum dlk_ss_purpose purpose);
/* Must not be repeated (UNSURE). */
bool dlk_ss_only_once(enum dlk_ss_purpose purpose);
/* What a refused op is told. */
enum dlk_code dlk_ss_code(enum dlk_ss_rc rc);
/* The same before an answer. */
enum dlk_code dlk_ss_unanswered(const struct dlk_op *op);

#endif
