/* Where the server is. Each attempt to connect asks for the address, since
 * another server may have taken over. */
#ifndef DLK_NET_ENDPOINT_H
#define DLK_NET_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/list.h"
#include "core/status.h"

struct dlk_conf;
struct dlk_net_tls;
struct dlk_net_wake;

struct dlk_net_address {
  const char *host; /* a name, or an address; NULL: a Unix socket */
  uint16_t port;
  const char *path;
  struct dlk_net_tls *tls; /* NULL: what is said there is not encrypted */
};

/* A host's, with its own memory. */
struct dlk_net_place {
  char host[254];
  uint16_t port;
};

/* One question for an address, embedded in its asker. */
struct dlk_net_seeker {
  /* address: valid until the next one is told. NULL, and why: there is none.
   * Told again when it is another one, until the seeker forgets it. */
  void (*located)(struct dlk_net_seeker *who,
                  const struct dlk_net_address *address,
                  const struct dlk_error *why);
  /* The endpoint's: */
  struct dlk_list entry;
  bool settled;
  uint64_t told; /* which of the addresses, or 0 */
};

struct dlk_net_endpoint {
  /* Answers by `located`, at once or later. */
  void (*locate)(struct dlk_net_endpoint *e, struct dlk_net_seeker *who);
  /* It is connected there; only another address is of interest now. This and
   * the next may be NULL. */
  void (*settle)(struct dlk_net_endpoint *e, struct dlk_net_seeker *who);
  /* The asker wants no answer any more. May be called at any time. */
  void (*forget)(struct dlk_net_endpoint *e, struct dlk_net_seeker *who);
  /* Servers may change places: whether one is the primary is asked of itself,
   * and the pauses between attempts are short. The following are not NULL. */
  bool changes;
  /* The user's word for a server there: "the primary"; NULL: the URL says. */
  const char *role;
  /* Before the first of these; *alive and gone(arg) as in sock.h. */
  void (*start)(struct dlk_net_endpoint *e, struct dlk_net_wake *wake,
                unsigned *alive, void (*gone)(void *arg), void *arg);
  /* The server of now may not be the right one any more. Seekers hear of
   * another one later, not now. */
  void (*doubt)(struct dlk_net_endpoint *e);
  /* Before the loop sleeps, and after it woke. listening: the store wants
   * messages. */
  void (*flush)(struct dlk_net_endpoint *e, bool listening);
  void (*stop)(struct dlk_net_endpoint *e);
  void (*destroy)(struct dlk_net_endpoint *e);
};

/* An address that the URL names. */
struct dlk_net_fixed {
  struct dlk_net_endpoint endpoint;
  struct dlk_net_address address;
};

/* One host of the URL's list (or its path), whose port is this one where none
 * is given. */
void dlk_net_fixed_init(struct dlk_net_fixed *f, const struct dlk_conf *conf,
                        size_t host, uint16_t port, struct dlk_net_tls *tls);

bool dlk_net_place_is(const struct dlk_net_place *a,
                      const struct dlk_net_place *b);
/* "host:port", an IPv6 address in brackets. */
struct dlk_net_place_text {
  char text[264];
};
struct dlk_net_place_text dlk_net_place_text(const struct dlk_net_place *place);
/* The other way; false: that is none. */
bool dlk_net_place_read(struct dlk_net_place *place, const char *text);

#endif
