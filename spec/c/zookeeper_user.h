/* Who uses the ZooKeeper store in the tests of its recipe: a host with the
 * store on the link of zookeeper_link.h, and the acts of a caller in few words.
 */
#ifndef SPEC_C_ZOOKEEPER_USER_H
#define SPEC_C_ZOOKEEPER_USER_H

#include "host.h"
#include "zookeeper_link.h"

#define TIMEOUT (8 * DLK_SEC)
#define LOCK "/dlock/k" /* of the key "k" */

extern struct host *h;
/* What it was told since the start. */
extern int revoked, renewals;
extern const char *lost_why;

/* A server without a node, and a store without a session, in h. */
void start(void);
/* The same below a chroot. */
void start_in(const char *chroot);
struct dlk_op *submit(enum dlk_op_kind kind, struct dlk_lease *lease,
                      const char *key);
struct dlk_lease *candidate(const char *key, uint32_t units);
/* Whether it is over, with that code; it is freed if it is over. */
bool ended(struct dlk_op *op, enum dlk_code code);
/* Acquires at once, in a session that is opened if there is none. */
struct dlk_lease *held(const char *key);
void release(struct dlk_lease *lease);
/* Who waits holds when the server has done its work, and gives it back. */
void gets_it(struct dlk_op *op, struct dlk_lease *lease);

#endif
