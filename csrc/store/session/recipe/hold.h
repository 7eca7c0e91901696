/* A contender that holds. */
#ifndef DLK_STORE_SESSION_RECIPE_HOLD_H
#define DLK_STORE_SESSION_RECIPE_HOLD_H

#include "store/session/recipe/contender.h"

/* A session's holds and lists under way. */
struct dlk_ss_holds {
  struct dlk_ss_session *session;
  struct dlk_list fresh;        /* whose own node is not watched yet */
  struct dlk_list reads;        /* whose own node is to be read */
  size_t reading;               /* of those, sent */
  struct dlk_timer fresh_timer; /* ends FRESH_FOR */
  struct dlk_map lists;
};

void dlk_ss_holds_opened(struct dlk_ss_session *s);
void dlk_ss_holds_connected(struct dlk_ss_session *s);
void dlk_ss_holds_over(struct dlk_ss_session *s);

/* n is first, by a list sent for at `sent` or an event of that time. Its ttl
 * counts from there. */
void dlk_ss_grant(struct dlk_ss_contender *n, int64_t sent);
void dlk_ss_lose(struct dlk_ss_contender *n, const char *why, bool is_gone);
/* The session's horizon has passed. */
void dlk_ss_hold_expired(struct dlk_ss_contender *n);
void dlk_ss_release(struct dlk_ss_store *st, struct dlk_op *op);
void dlk_ss_extend(struct dlk_ss_store *st, struct dlk_op *op);
/* The connection is back. */
void dlk_ss_hold_resume(struct dlk_ss_contender *n);
/* Its own watch: armed (revoked: by the node's data), or over: changed (OK),
 * gone (NONODE), unread. */
void dlk_ss_own_armed(struct dlk_ss_contender *n, bool revoked);
void dlk_ss_own_over(struct dlk_ss_contender *n, enum dlk_ss_rc rc);

void dlk_ss_renew(void *store, struct dlk_lease *const *leases, size_t count);

#endif
