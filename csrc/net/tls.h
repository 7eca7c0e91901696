/* The TLS client of a store's connections, made from its options. */
#ifndef DLK_NET_TLS_H
#define DLK_NET_TLS_H

#include "core/status.h"
#include "tls/tls.h"

struct dlk_conf;

struct dlk_net_tls {
  const struct dlk_tls_library *lib;
  struct dlk_tls_client *client;
  struct dlk_tls_settings settings;
};

/* By the options `tls` and `tls_library`; conf's texts must live as long, and
 * so must alpn: the protocol's name (RFC 7301), or NULL. */
enum dlk_code dlk_net_tls_new(const struct dlk_conf *conf, const char *alpn,
                              struct dlk_net_tls **out, struct dlk_error *err);
/* After its last connection. */
void dlk_net_tls_free(struct dlk_net_tls *tls);

#endif
