/* The chain of confirms in a session, and what it proves. */
#ifndef DLK_STORE_SESSION_LIFE_CHAIN_H
#define DLK_STORE_SESSION_LIFE_CHAIN_H

#include "store/session/life/session.h"

/* Tells each member of that use once; others may join or leave meanwhile. */
void dlk_ss_session_tell(struct dlk_ss_session *s, enum dlk_ss_use use,
                         void (*tell)(struct dlk_ss_member *m));
void dlk_ss_session_tick(struct dlk_ss_session *s);
/* A write of the chain was answered. */
void dlk_ss_session_confirmed(struct dlk_ss_session *s, uint32_t token,
                              bool ok);
/* A hold was granted in s: publishes, and ends it in time. */
void dlk_ss_session_holds(struct dlk_ss_session *s);
/* A hold left s and its lease was told: other sessions' holds may count for
 * longer. */
void dlk_ss_session_freed(struct dlk_ss_session *s);
/* An answer about m's node no longer concerns m. */
void dlk_ss_session_unname(struct dlk_ss_member *m);
/* Tells the host until when all holds count. */
void dlk_ss_publish(struct dlk_ss_sessions *ss);
/* The session's timers. */
void dlk_ss_confirm_fired(struct dlk_timer *timer, int64_t now);
void dlk_ss_horizon_fired(struct dlk_timer *timer, int64_t now);

#endif
