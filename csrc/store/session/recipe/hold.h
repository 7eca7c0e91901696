/* A contender that holds. */
#ifndef DLK_STORE_SESSION_RECIPE_HOLD_H
#define DLK_STORE_SESSION_RECIPE_HOLD_H

#include "store/session/recipe/contender.h"

/* What a session keeps of those who hold in it, and of the lists (lists.c)
 * that are under way. */
struct dlk_ss_holds {
  struct dlk_ss_session *session;
  struct dlk_list fresh;        /* holds whose own node is not watched yet */
  struct dlk_list reads;        /* holds whose own node is to be read */
  size_t reading;               /* such reads under way */
  struct dlk_timer fresh_timer; /* watch what is held for longer */
  struct dlk_map lists;
};

/* The session's hooks. */
void dlk_ss_holds_opened(struct dlk_ss_session *s);
void dlk_ss_holds_connected(struct dlk_ss_session *s);
void dlk_ss_holds_over(struct dlk_ss_session *s);

/* It is first in the queue, by a list that was sent for at `sent`, or by an
 * event that came then: its ttl counts from there, however long it waited. */
void dlk_ss_grant(struct dlk_ss_contender *n, int64_t sent);
void dlk_ss_lose(struct dlk_ss_contender *n, const char *why, bool is_gone);
/* The time that the session has proven is over. */
void dlk_ss_hold_expired(struct dlk_ss_contender *n);
void dlk_ss_release(struct dlk_ss_store *st, struct dlk_op *op);
void dlk_ss_extend(struct dlk_ss_store *st, struct dlk_op *op);
/* The connection is back. */
void dlk_ss_hold_resume(struct dlk_ss_contender *n);
/* Its own watch: armed (revoked: the node says so), or over: the node changed
 * (OK), is gone (NONODE), or could not be read. */
void dlk_ss_own_armed(struct dlk_ss_contender *n, bool revoked);
void dlk_ss_own_over(struct dlk_ss_contender *n, enum dlk_ss_rc rc);

void dlk_ss_renew(void *store, struct dlk_lease *const *leases, size_t count);

#endif
