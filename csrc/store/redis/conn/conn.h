/* One connection that comes back: requests out in order, replies in order,
 * time-outs, reconnecting while something waits. What is said first on a
 * fresh connection (the handshake) and what becomes of replies that nobody
 * asked for is the owner's affair. */
#ifndef DLK_STORE_REDIS_CONN_CONN_H
#define DLK_STORE_REDIS_CONN_CONN_H

#include "store/redis/conn/lifetime.h"

void dlk_redis_conn_init(struct dlk_redis_conn *c);
void dlk_redis_conn_free(struct dlk_redis_conn *c);
void dlk_redis_conn_submit(struct dlk_redis_conn *c, struct dlk_redis_req *r);
bool dlk_redis_conn_withdraw(struct dlk_redis_conn *c, struct dlk_redis_req *r);
/* Writes what waits. Called before the loop sleeps and after it woke. */
void dlk_redis_conn_flush(struct dlk_redis_conn *c);
/* Blocks for DLK_AWAIT_MAX at most in reading the one answer that is to come;
 * false: nothing came, or there is not just one. */
bool dlk_redis_conn_await(struct dlk_redis_conn *c);
/* From the handshake's `done`: another question before it is ready. (Its
 * verdict: see lifetime.h.) */
void dlk_redis_conn_say(struct dlk_redis_conn *c, struct dlk_redis_req *r);

#endif
