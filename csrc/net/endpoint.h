/* Where the server is. Each attempt asks: another one may have taken over. */
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
  const char *host; /* name or literal; NULL: a Unix socket */
  uint16_t port;
  const char *path;
  struct dlk_net_tls *tls; /* NULL: not encrypted */
};

struct dlk_net_place {
  char host[254];
  uint16_t port;
};

struct dlk_net_seeker {
  /* address: valid until the next, or NULL and why. Another, or the same, may
   * follow until `forget`. */
  void (*located)(struct dlk_net_seeker *who,
                  const struct dlk_net_address *address,
                  const struct dlk_error *why);
  bool settled;          /* only another address counts now */
  struct dlk_list entry; /* the endpoint's */
};

struct dlk_net_endpoint {
  void (*locate)(struct dlk_net_endpoint *e, struct dlk_net_seeker *who);
  /* May be NULL. */
  void (*forget)(struct dlk_net_endpoint *e, struct dlk_net_seeker *who);
  /* Servers change places: a server says whether it is the right one, and
   * pauses are short. The following are not NULL. */
  bool changes;
  /* The user's name for a server there, as "the primary". NULL: the URL says,
   * and no other address is told. */
  const char *role;
  /* First; *alive and gone(arg): see sock.h. */
  void (*start)(struct dlk_net_endpoint *e, struct dlk_net_wake *wake,
                unsigned *alive, void (*gone)(void *arg), void *arg);
  /* The server may be the wrong one; another is told later. */
  void (*doubt)(struct dlk_net_endpoint *e);
  /* Around the loop's sleep. listening: the store wants messages. */
  void (*flush)(struct dlk_net_endpoint *e, bool listening);
  void (*stop)(struct dlk_net_endpoint *e);
  void (*destroy)(struct dlk_net_endpoint *e);
};

/* From the URL. */
struct dlk_net_fixed {
  struct dlk_net_endpoint endpoint;
  struct dlk_net_address address;
};

/* host: its number in the URL; else the path. port: the default. */
void dlk_net_fixed_init(struct dlk_net_fixed *f, const struct dlk_conf *conf,
                        size_t host, uint16_t port, struct dlk_net_tls *tls);

bool dlk_net_place_is(const struct dlk_net_place *a,
                      const struct dlk_net_place *b);
struct dlk_net_place_text {
  char text[264];
};
struct dlk_net_place_text dlk_net_place_text(const struct dlk_net_place *place);
/* False: no place. */
bool dlk_net_place_read(struct dlk_net_place *place, const char *text);

#endif
