/* Each address has one turn in an attempt to connect, in the order of the
 * look-up as a circle. One that answers or refuses does so at once, so the
 * others have their turn in the same attempt. One that is silent may take all
 * of its time: so the next attempt begins behind it, or it would be tried again
 * and again, and the others never. If the system gives it up before that, the
 * others have what is left, and the next attempt begins behind it, too. The
 * address itself is remembered, not its place, since the next look-up may give
 * another order; if it is not among them, the first one begins. */
#include "store/redis/conn/addresses.h"

#include <netdb.h>
#include <string.h>

#include "store/redis/conn/resolve.h"

static const struct addrinfo *behind(const struct dlk_redis_addresses *all,
                                     const struct addrinfo *a) {
  return a->ai_next ? a->ai_next : all->all;
}

void dlk_redis_addresses_take(struct dlk_redis_addresses *all,
                              struct dlk_redis_resolved *answer,
                              const struct dlk_redis_silent *silent) {
  all->answer = answer;
  all->all = all->first = dlk_redis_resolved_list(answer);
  for (const struct addrinfo *a = all->all; a; a = a->ai_next)
    if (a->ai_addrlen == silent->len &&
        memcmp(a->ai_addr, &silent->peer, silent->len) == 0)
      all->first = behind(all, a);
  all->next = all->first;
}

const struct addrinfo *
dlk_redis_addresses_next(struct dlk_redis_addresses *all) {
  const struct addrinfo *a = all->next;
  if (a) {
    const struct addrinfo *next = behind(all, a);
    all->next = next == all->first ? NULL : next;
  }
  return a;
}

void dlk_redis_addresses_free(struct dlk_redis_addresses *all) {
  dlk_redis_resolved_free(all->answer);
}
