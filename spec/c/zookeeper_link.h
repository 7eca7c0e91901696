/* A ZooKeeper of one process: the link that the recipe is handed (link.h) and
 * the server behind it, so that a test can say which request is executed, which
 * answer is lost, and what is told in between. Nothing happens by itself. */
#ifndef SPEC_C_ZOOKEEPER_LINK_H
#define SPEC_C_ZOOKEEPER_LINK_H

#include "store/zookeeper/client/link.h"

/* Told to all links that are open, in the order of their opening. */
void fake_connected(int64_t timeout);
void fake_away(void);
/* Executes and answers one request; false when there is none. */
bool fake_step(void);
/* Until none is left. */
static inline void fake_serve(void) {
  while (fake_step())
    continue;
}
/* One only, whose answer never comes. */
void fake_step_unheard(void);
/* The same until one with that verb is the next. */
void fake_serve_until(enum dlk_zk_verb verb);
/* The connection breaks, and no answer arrives. */
void fake_lose_all(bool executed_first);
/* That, when everything was executed; before anything else was. */
static inline void fake_cut(void) {
  fake_lose_all(true);
}
static inline void fake_drop(void) {
  fake_lose_all(false);
}
/* The server ends the sessions, and says so. */
void fake_expire(void);
/* We are served by one that is behind: no list shows what there is now, until
 * it was asked to catch up. */
void fake_set_late(bool late);
static inline void fake_lag(void) {
  fake_set_late(true);
}
/* Those that are connected, or those that are not, have come to such an end. */
void fake_end(bool connected, enum dlk_ss_end end);
extern size_t fake_queued, fake_done[DLK_ZK_MULTI + 1];
static inline size_t fake_waiting(void) {
  return fake_queued;
}
/* The next request with that verb is refused so; UNKNOWN: each container. */
void fake_refuse(enum dlk_zk_verb verb, enum dlk_ss_rc rc);
/* How many requests with that verb were executed. */
static inline size_t fake_executed(enum dlk_zk_verb verb) {
  return fake_done[verb];
}
/* What a contender's node says, the first one of the lock; NULL if none. */
const char *fake_data(const char *lock, size_t *len);
size_t fake_nodes(const char *lock);
/* Whether the node of that transaction is there. */
bool fake_has(int64_t czxid);
/* How a node was made. */
enum dlk_zk_mode fake_mode(const char *path);
/* How many links are not closed. */
size_t fake_links(void);
/* An admin deletes the lock with all that is in it. */
void fake_remove(const char *lock);
/* An admin deletes the contender that came last, or first. */
void fake_remove_one(const char *lock, bool last);
/* The first contender of the lock belongs to a session that is not ours. Its
 * czxid. */
int64_t fake_disown(const char *lock);
/* Somebody else's contender, exclusive, at the end of the queue. */
void fake_join(const char *lock);
/* With which number the children of a node that is made begin. */
extern int32_t fake_first;
void fake_reset(void);

#endif
