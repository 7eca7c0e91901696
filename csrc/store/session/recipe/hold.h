/* A contender that holds. */
#ifndef DLK_STORE_SESSION_RECIPE_HOLD_H
#define DLK_STORE_SESSION_RECIPE_HOLD_H

#include "store/session/recipe/contender.h"

/* What a session keeps of those who hold in it, and of the lists (lists.c)
 * that are under way. */
struct dlk_zk_holds {
  struct dlk_zk_session *session;
  struct dlk_list fresh;        /* holds whose own node is not watched yet */
  struct dlk_list reads;        /* holds whose own node is to be read */
  size_t reading;               /* such reads under way */
  struct dlk_timer fresh_timer; /* watch what is held for longer */
  struct dlk_map lists;
};

/* The session's hooks. */
void dlk_zk_holds_opened(struct dlk_zk_session *s);
void dlk_zk_holds_connected(struct dlk_zk_session *s);
void dlk_zk_holds_over(struct dlk_zk_session *s);

/* It is first in the queue, by a list that was sent for at `sent`, or by an
 * event that came then: its ttl counts from there, however long it waited. */
void dlk_zk_grant(struct dlk_zk_contender *n, int64_t sent);
void dlk_zk_lose(struct dlk_zk_contender *n, const char *why, bool is_gone);
/* The time that the session has proven is over. */
void dlk_zk_hold_expired(struct dlk_zk_contender *n);
void dlk_zk_release(struct dlk_zk_store *st, struct dlk_op *op);
void dlk_zk_extend(struct dlk_zk_store *st, struct dlk_op *op);
/* The connection is back. */
void dlk_zk_hold_resume(struct dlk_zk_contender *n);
/* Its own watch: armed (revoked: the node says so), or over: the node changed
 * (OK), is gone (NONODE), or could not be read. */
void dlk_zk_own_armed(struct dlk_zk_contender *n, bool revoked);
void dlk_zk_own_over(struct dlk_zk_contender *n, enum dlk_zk_rc rc);

void dlk_session_renew(void *store, struct dlk_lease *const *leases,
                       size_t count);

#endif
