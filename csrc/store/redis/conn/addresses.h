/* The addresses that a look-up gave for a name, and which of them is connected
 * to next. No network and no time. */
#ifndef DLK_STORE_REDIS_CONN_ADDRESSES_H
#define DLK_STORE_REDIS_CONN_ADDRESSES_H

#include <stdbool.h>
#include <sys/socket.h>

struct addrinfo;
struct dlk_redis_resolved;

/* The address that was connected to in vain last, in the memory of who connects
 * again and again; all zeros: none. */
struct dlk_redis_silent {
  struct sockaddr_storage peer;
  socklen_t len;
};

/* All zeros: there are none. */
struct dlk_redis_addresses {
  struct dlk_redis_resolved *answer;
  const struct addrinfo *all;
  const struct addrinfo *first; /* to be tried */
  const struct addrinfo *next;  /* or NULL */
};

/* Takes over the answer (resolve.h). */
void dlk_redis_addresses_take(struct dlk_redis_addresses *all,
                              struct dlk_redis_resolved *answer,
                              const struct dlk_redis_silent *silent);
/* NULL: each had its turn. */
const struct addrinfo *
dlk_redis_addresses_next(struct dlk_redis_addresses *all);
void dlk_redis_addresses_free(struct dlk_redis_addresses *all);

#endif
