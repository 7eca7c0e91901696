/* Where the server is: an address is looked for before each attempt to connect,
 * since another server may have taken over. */
#ifndef DLK_STORE_REDIS_CONN_ENDPOINT_H
#define DLK_STORE_REDIS_CONN_ENDPOINT_H

#include <stdint.h>

struct dlk_conf;

struct dlk_redis_address {
  const char *host; /* a name, or an address; NULL: a Unix socket */
  uint16_t port;
  const char *path;
};

/* Embedded in whoever wants to know an address. */
struct dlk_redis_seeker {
  /* address: valid until the next one is asked for. NULL, and why: there is
   * none, "its Sentinels do not answer". */
  void (*located)(struct dlk_redis_seeker *who,
                  const struct dlk_redis_address *address, const char *why);
};

struct dlk_redis_endpoint {
  /* Answers by `located`, at once or later, once. */
  void (*locate)(struct dlk_redis_endpoint *e, struct dlk_redis_seeker *who);
  /* No answer is wanted any more. */
  void (*forget)(struct dlk_redis_endpoint *e, struct dlk_redis_seeker *who);
};

/* The one address that the URL names. */
struct dlk_redis_fixed {
  struct dlk_redis_endpoint endpoint;
  struct dlk_redis_address address;
};

void dlk_redis_fixed_init(struct dlk_redis_fixed *f,
                          const struct dlk_conf *conf);

#endif
