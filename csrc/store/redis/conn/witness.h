/* One Sentinel: the connection to it, the question, and what it answered. */
#ifndef DLK_STORE_REDIS_CONN_WITNESS_H
#define DLK_STORE_REDIS_CONN_WITNESS_H

#include "store/redis/conn/agree.h"
#include "store/redis/conn/auth.h"
#include "store/redis/conn/conn.h"

#define DLK_REDIS_SENTINEL_PORT 26379
#define DLK_REDIS_SENTINEL_ROLE "the Sentinel"
/* Between two attempts to connect to a Sentinel at most, and between two
 * questions. */
#define DLK_REDIS_SENTINEL_PAUSE (250 * DLK_MS)

/* What is the same for all connections to Sentinels. */
struct dlk_redis_sentinels {
  struct dlk_host *host;
  const struct dlk_conf *conf; /* its hosts are they */
  char master[256];
  const char *username;
  struct dlk_secret *secret;
  struct dlk_net_tls *tls; /* or NULL */
  void (*gone)(void *arg); /* as in sock.h, but of all of them */
  void *gone_arg;
};

struct dlk_redis_witness {
  const struct dlk_redis_sentinels *all;
  struct dlk_redis_conn conn;
  struct dlk_net_fixed at;
  struct dlk_redis_req hello, ask;
  bool asked; /* a question is under way */
  struct dlk_redis_opinion opinion;
  struct dlk_error why; /* it says no, or nothing */
  /* It has answered, or never will. */
  void (*answered)(struct dlk_redis_witness *w);
};

/* One that is all zeros but for `answered`. */
void dlk_redis_witness_init(struct dlk_redis_witness *w,
                            const struct dlk_redis_sentinels *all, size_t host);
/* Only when no question is under way. May be answered at once. */
void dlk_redis_witness_ask(struct dlk_redis_witness *w);

struct dlk_net_server_text
dlk_redis_witness_name(const struct dlk_redis_witness *w);
/* Why it says nothing, in a sentence that has named it already. */
const char *dlk_redis_witness_why(const struct dlk_redis_witness *w);

/* For any connection to a Sentinel: AUTH, if that is wanted, before one more
 * command, */
void dlk_redis_sentinel_auth(const struct dlk_redis_sentinels *all,
                             struct dlk_redis_req *r, struct dlk_buf *out);
/* and the end of such a handshake; true: it is ready. */
bool dlk_redis_sentinel_greeted(const struct dlk_redis_sentinels *all,
                                struct dlk_redis_conn *c,
                                const struct dlk_net_address *at,
                                const struct dlk_redis_req *r,
                                const struct dlk_redis_answer *a);

#endif
