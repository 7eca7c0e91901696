/* Where the server is: an address is looked for before each attempt to connect,
 * since another server may have taken over. */
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

/* Embedded in whoever wants to know an address. */
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
  /* It is connected there; only another address is of interest now. */
  void (*settle)(struct dlk_net_endpoint *e, struct dlk_net_seeker *who);
  /* No answer is wanted any more. May be called at any time. */
  void (*forget)(struct dlk_net_endpoint *e, struct dlk_net_seeker *who);
  /* Servers may change places: whether one is the primary is asked of itself,
   * and the pauses between attempts are short. The following are not NULL. */
  bool changes;
  /* How many replicas the Sentinels know of, those too that are away; -1: it
   * is not told. */
  int64_t replicas;
  /* What a server there is to the user, as in dlk_net_server_text. */
  const char *role;
  /* Before the first of these; *alive and gone(arg) as in sock.h. */
  void (*start)(struct dlk_net_endpoint *e, struct dlk_net_wake *wake,
                unsigned *alive, void (*gone)(void *arg), void *arg);
  /* What is connected to may not be the right one any more. Seekers that are
   * told so hear of it later, not now. */
  void (*doubt)(struct dlk_net_endpoint *e);
  /* Before the loop sleeps, and after it woke. listening: messages are wanted,
   * since somebody holds or waits. */
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

/* How messages name one server of a URL's several: "the primary", with its
 * address behind it; role or at NULL: by the URL alone. */
struct dlk_net_server_text {
  char text[600];
};
struct dlk_net_server_text
dlk_net_server_text(const char *shown, const char *role,
                    const struct dlk_net_address *at);

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
