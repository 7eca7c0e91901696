/* The chain of confirms in a session, and what it proves. */
#ifndef DLK_STORE_SESSION_LIFE_CHAIN_H
#define DLK_STORE_SESSION_LIFE_CHAIN_H

#include "store/session/life/session.h"

/* Tells each member whose node is this to s, once: what they do may have others
 * leave or join. */
void dlk_ss_session_tell(struct dlk_ss_session *s, enum dlk_ss_use use,
                         void (*tell)(struct dlk_ss_member *m));
/* Sends or schedules the next confirm. */
void dlk_ss_session_tick(struct dlk_ss_session *s);
/* A write of the chain was answered. */
void dlk_ss_session_confirmed(struct dlk_ss_session *s, uint32_t token,
                              bool ok);
/* A hold was granted in s: tells the host how long it counts. */
void dlk_ss_session_holds(struct dlk_ss_session *s);
/* A hold left s, and its lease was told: those of other sessions may count
 * for longer. */
void dlk_ss_session_freed(struct dlk_ss_session *s);
/* What m's node was called says nothing about m any more. */
void dlk_ss_session_unname(struct dlk_ss_member *m);
/* Tells the host until when all holds count. */
void dlk_ss_publish(struct dlk_ss_sessions *ss);
/* The timers of a session: its next confirm is due; its holds end. */
void dlk_ss_confirm_fired(struct dlk_timer *timer, int64_t now);
void dlk_ss_horizon_fired(struct dlk_timer *timer, int64_t now);

#endif
