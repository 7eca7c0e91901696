/* The watches of a session's members. */
#ifndef DLK_STORE_SESSION_LIFE_WATCH_H
#define DLK_STORE_SESSION_LIFE_WATCH_H

#include "store/session/life/session.h"

/* m watches path (list: its children) in its session; own: m's own node. False:
 * no memory. */
bool dlk_ss_watch_add(struct dlk_ss_member *m, const char *path, bool own,
                      bool list);
/* m watches nothing any more. */
void dlk_ss_watch_drop(struct dlk_ss_member *m);
/* A watched node: 0 unknown, 1 as its name says, 2 downgraded. */
int dlk_ss_watch_knows(struct dlk_ss_session *s, const char *path);

void dlk_ss_watch_event(struct dlk_ss_session *s, enum dlk_ss_event event,
                        const char *path);
void dlk_ss_watch_free_all(struct dlk_ss_session *s);

#endif
