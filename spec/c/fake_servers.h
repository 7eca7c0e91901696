/* An etcd, or a Consul, of one process: what stands for the driver's conn/, and
 * the servers behind it, so that a test can say which request is executed,
 * which answer is lost, and which request of a lost connection is done later.
 * Nothing happens by itself but the end of leases and sessions. */
#ifndef SPEC_C_FAKE_SERVERS_H
#define SPEC_C_FAKE_SERVERS_H

#include "store/session/driver.h"

/* Connections that are wanted begin; what they ask first is a request, too. */
void fake_connected(int64_t timeout);
/* One request, any of those under way, or an event; false: there is none. */
bool fake_step(void);
static inline void fake_serve(void) {
  while (fake_step())
    continue;
}
/* All connections break. What is under way is done before, or by chance later,
 * or never; no answer arrives. */
void fake_lose_all(bool executed_first);
static inline void fake_cut(void) {
  fake_lose_all(true);
}
static inline void fake_drop(void) {
  fake_lose_all(false);
}
static inline void fake_away(void) {
  fake_lose_all(false);
}
/* While it waits, nothing of a lost connection is done, nor lost. */
void fake_late(bool waits);
/* Transactions are done, and answered as if there was no space. */
void fake_full(bool full);
/* What that key hangs on. */
int64_t fake_lease(int64_t created);
/* The servers end the sessions that are connected, which hear of it. */
void fake_expire(void);
void fake_end(bool connected, enum dlk_ss_end end);
/* Whether the key that was created then is there. */
bool fake_has(int64_t created);
size_t fake_nodes(const char *lock);
void fake_reset(void);

#endif
