/* A member sends requests in a session, which tells it by the functions of its
 * type. A contender has a node there (or will): the session's end is the
 * node's. A guest may go on in another session. */
#ifndef DLK_STORE_SESSION_LIFE_MEMBER_H
#define DLK_STORE_SESSION_LIFE_MEMBER_H

#include "store/session/driver.h"

struct dlk_ss_member;

/* What a member's node is to the session. */
enum dlk_ss_use {
  DLK_SS_USE_NONE,     /* being deleted, gone, a guest's */
  DLK_SS_USE_PARKED,   /* nothing was sent yet */
  DLK_SS_USE_COMING,   /* it may be there */
  DLK_SS_USE_STANDING, /* it is there */
  DLK_SS_USE_READY,    /* first in the queue, waits for the horizon */
  DLK_SS_USE_HELD,
  DLK_SS_USES
};

struct dlk_ss_sight {
  bool own;  /* the member's own node's */
  bool list; /* of children */
  bool downgraded, revoked;
  int64_t owner; /* dlk_ss_stat.owner */
};

struct dlk_ss_member_type {
  /* Waits on a lock's children: judged by their list, not told of the change.
   */
  bool by_list;
  void (*resume)(struct dlk_ss_member *m);
  /* The session is over. Holds hear it before its connection is closed, others
   * after. code: DLK_OK, or why it was never used. The member must leave. */
  void (*orphaned)(struct dlk_ss_member *m, enum dlk_code code);
  /* Guests: the session takes nothing new. */
  void (*retired)(struct dlk_ss_member *m);
  /* A watch is armed; or over: changed (OK), gone (NONODE), unread. */
  void (*armed)(struct dlk_ss_member *m, const struct dlk_ss_sight *sight);
  void (*changed)(struct dlk_ss_member *m, bool own, enum dlk_ss_rc rc);
  /* Contenders: the path of a node that STANDS at least; it was seen gone, or
   * bound to another session; READY: the horizon moved; HELD: it passed; frees
   * one that only waited for answers. */
  const char *(*path)(const struct dlk_ss_member *m);
  void (*gone)(struct dlk_ss_member *m);
  void (*unbound)(struct dlk_ss_member *m);
  void (*proven)(struct dlk_ss_member *m);
  void (*expired)(struct dlk_ss_member *m);
  void (*discard)(struct dlk_ss_member *m);
};

struct dlk_ss_member {
  struct dlk_list link; /* in a list of its session */
  const struct dlk_ss_member_type *type;
  struct dlk_ss_session *session;
  struct dlk_list watches; /* watch.c */
  enum dlk_ss_use use;
  size_t awaits; /* length of a path to be watched */
  bool settles;  /* a guest: what it did must become known here */
  int flying;    /* answers to come */
};

static inline void dlk_ss_member_init(struct dlk_ss_member *m,
                                      const struct dlk_ss_member_type *type) {
  dlk_list_init(&m->link);
  dlk_list_init(&m->watches);
  m->type = type;
}

#endif
