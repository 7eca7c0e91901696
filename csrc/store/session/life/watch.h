/* Who watches which node. */
#ifndef DLK_STORE_SESSION_LIFE_WATCH_H
#define DLK_STORE_SESSION_LIFE_WATCH_H

#include "store/session/life/session.h"

/* m wants to hear of path (list: of its children) in its session; own: it is
 * m's own node. False: no memory. */
bool dlk_ss_watch_add(struct dlk_ss_member *m, const char *path, bool own,
                      bool list);
/* m wants to hear of nothing any more. */
void dlk_ss_watch_drop(struct dlk_ss_member *m);
/* What is known of a watched node: 0 nothing yet, 1 it stands as its name
 * says, 2 it was downgraded. */
int dlk_ss_watch_knows(struct dlk_ss_session *s, const char *path);

void dlk_ss_watch_event(struct dlk_ss_session *s, enum dlk_ss_event event,
                        const char *path);
void dlk_ss_watch_free_all(struct dlk_ss_session *s);

#endif
