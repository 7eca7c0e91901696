/* The chain of confirms in a session, and what it proves. */
#ifndef DLK_STORE_SESSION_LIFE_CHAIN_H
#define DLK_STORE_SESSION_LIFE_CHAIN_H

#include "store/session/life/session.h"

/* Tells each member whose node is this to s, once: what they do may have others
 * leave or join. */
void dlk_zk_session_tell(struct dlk_zk_session *s, enum dlk_zk_use use,
                         void (*tell)(struct dlk_zk_member *m));
/* Sends or schedules the next confirm. */
void dlk_zk_session_tick(struct dlk_zk_session *s);
/* A write of the chain was answered. */
void dlk_zk_session_confirmed(struct dlk_zk_session *s, uint32_t token,
                              bool ok);
/* A hold was granted in s: tells the host how long it counts. */
void dlk_zk_session_holds(struct dlk_zk_session *s);
/* A hold left s, and its lease was told: those of other sessions may count
 * for longer. */
void dlk_zk_session_freed(struct dlk_zk_session *s);
/* What m's node was called says nothing about m any more. */
void dlk_zk_session_unname(struct dlk_zk_member *m);
/* Tells the host until when all holds count. */
void dlk_zk_publish(struct dlk_zk_sessions *ss);
/* The timers of a session: its next confirm is due; its holds end. */
void dlk_zk_confirm_fired(struct dlk_timer *timer, int64_t now);
void dlk_zk_horizon_fired(struct dlk_timer *timer, int64_t now);

#endif
