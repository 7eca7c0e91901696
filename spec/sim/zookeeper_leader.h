/* A leader that counts as ZooKeeper's does, the servers that follow it, and the
 * client library, which the ZooKeeper store is handed as its link.
 *
 * A session lives at the leader until `expires`, which only three things move:
 * a request at the leader itself, a follower's reply to a ping (when that
 * follower heard of the session since its last one), and the handshake of a
 * connection. Writes are answered by the leader alone, everything else by the
 * server that the client is connected to. Between client and server, and
 * between server and leader, messages keep their order and come when they like.
 * Pings are as rare as they may be: the timeout is two ticks.
 *
 * Nothing happens by itself: a history says what is next on which link. */
#ifndef SPEC_SIM_ZOOKEEPER_LEADER_H
#define SPEC_SIM_ZOOKEEPER_LEADER_H

#include "host.h"

#define TIMEOUT (8 * DLK_SEC)
#define SIM_LINKS 8

struct dlk_zk_link;

/* The process that has the store; its time is everybody's. */
extern struct host *sim_host;
/* What it has open, or is closing; NULL: a free place. */
extern struct dlk_zk_link *sim_links[SIM_LINKS];
/* No server is without the majority. */
extern bool sim_sound;

/* The history's own: the node with that number goes, or has gone before, and
 * why; 0: there never was one. */
void sim_node_goes(int64_t czxid, const char *why);

/* One message: the server takes a request, the leader or the follower what the
 * other sent, our side (which may be late) what the library has for it. */
void sim_serve(struct dlk_zk_link *l);
void sim_lead(struct dlk_zk_link *l);
void sim_follow(struct dlk_zk_link *l);
void sim_hear(struct dlk_zk_link *l);
/* The connection breaks. What is under way is told so after the loss; a write
 * may be done. */
void sim_lose(struct dlk_zk_link *l);
/* The library begins to connect, if it has to. */
void sim_attach(struct dlk_zk_link *l);
/* The library has no memory for what it would tell: our side cannot hear it
 * any more. */
void sim_deafen(struct dlk_zk_link *l);
/* The leader hears nothing more from those who are connected now. */
void sim_isolate(void);
/* What stands in the way goes: everybody reaches the leader. */
void sim_mend(void);
/* All that is under way arrives. */
void sim_settle(void);
/* Time passes; sessions end. */
void sim_pass(int64_t ns);

#endif
