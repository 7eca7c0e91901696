/* Whoever sends requests in a session, as the session sees it.
 *
 * There are two kinds. A contender has a node in the session, or is about to
 * have one: it stays until the node is gone, and the session's end is the end
 * of the node. A guest only sends requests, and may go on in another session.
 * What they do is not known here: a session tells them, by the functions of
 * their type, what happens to it and to what they watch. */
#ifndef DLK_STORE_SESSION_LIFE_MEMBER_H
#define DLK_STORE_SESSION_LIFE_MEMBER_H

#include "store/session/driver.h"

struct dlk_ss_member;

/* What a member's node is to the session. */
enum dlk_ss_use {
  DLK_SS_USE_NONE,     /* being deleted, or gone; and that of a guest */
  DLK_SS_USE_PARKED,   /* nothing was sent yet */
  DLK_SS_USE_COMING,   /* it may be there */
  DLK_SS_USE_STANDING, /* it is there */
  DLK_SS_USE_READY,    /* and first in the queue: it waits for the horizon */
  DLK_SS_USE_HELD,     /* it is a hold */
  DLK_SS_USES
};

/* A watch that is armed, and what the read that armed it showed. */
struct dlk_ss_sight {
  bool own;  /* it was asked for as that of the member's own node */
  bool list; /* of children */
  bool downgraded, revoked;
};

struct dlk_ss_member_type {
  /* Where the children of a lock are watched: it is judged by the list that
   * arms the watch anew, and need not be told of the change. */
  bool by_list;
  /* The session is connected, for the first time or again. */
  void (*resume)(struct dlk_ss_member *m);
  /* The session is over, and no answer of it comes any more: told to holds
   * before its connection is closed, to all others after that. code: DLK_OK,
   * or what kept it from ever being used. The member has to leave. */
  void (*orphaned)(struct dlk_ss_member *m, enum dlk_code code);
  /* Guests: the session takes nothing new and ends when it is empty. */
  void (*retired)(struct dlk_ss_member *m);
  /* A watch of the member is armed; it is over, because of a change (OK), the
   * node's end (NONODE), or because it could not be set. */
  void (*armed)(struct dlk_ss_member *m, const struct dlk_ss_sight *sight);
  void (*changed)(struct dlk_ss_member *m, bool own, enum dlk_ss_rc rc);
  /* Contenders: the path of its node, which STANDS at least; the node was seen
   * to be gone; READY: the horizon moved; HELD: the horizon has passed; only
   * answers kept it in memory, and none comes any more. */
  const char *(*path)(const struct dlk_ss_member *m);
  void (*gone)(struct dlk_ss_member *m);
  void (*proven)(struct dlk_ss_member *m);
  void (*expired)(struct dlk_ss_member *m);
  void (*discard)(struct dlk_ss_member *m);
};

struct dlk_ss_member {
  struct dlk_list link; /* in one of its session's lists */
  const struct dlk_ss_member_type *type;
  struct dlk_ss_session *session;
  struct dlk_list watches; /* watch.c */
  enum dlk_ss_use use;
  size_t awaits; /* length of the path that it may come to watch */
  int flying;    /* answers to come */
};

static inline void dlk_ss_member_init(struct dlk_ss_member *m,
                                      const struct dlk_ss_member_type *type) {
  dlk_list_init(&m->link);
  dlk_list_init(&m->watches);
  m->type = type;
}

#endif
