/* Each address has one turn in an attempt to connect, in a circle. A silent one
 * may take all of the time: the next attempt begins behind it, or the others
 * would have no turn. The address is remembered, not its place, since look-ups
 * differ in order. */
#include "net/addresses.h"

#include <netdb.h>
#include <string.h>

static socklen_t len_of(const union dlk_net_inet *a) {
  return a->any.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
}

void dlk_net_addresses_copy(struct dlk_net_addresses *all,
                            const struct addrinfo *list) {
  all->count = all->left = 0;
  for (; list && all->count < DLK_NET_ADDRESSES; list = list->ai_next)
    if (list->ai_family == AF_INET || list->ai_family == AF_INET6)
      memcpy(&all->all[all->count++], list->ai_addr, list->ai_addrlen);
}

void dlk_net_addresses_begin(struct dlk_net_addresses *all,
                             const struct dlk_net_silent *silent) {
  all->next = 0;
  all->left = all->count;
  for (unsigned i = 0; i < all->count; i++)
    if (len_of(&all->all[i]) == silent->len &&
        memcmp(&all->all[i], &silent->peer, silent->len) == 0)
      all->next = (i + 1) % all->count;
}

const struct sockaddr *dlk_net_addresses_next(struct dlk_net_addresses *all,
                                              socklen_t *len) {
  if (all->left == 0)
    return NULL;
  const union dlk_net_inet *a = &all->all[all->next];
  all->left--;
  all->next = (all->next + 1) % all->count;
  *len = len_of(a);
  return &a->any;
}
