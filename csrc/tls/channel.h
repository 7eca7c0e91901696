/* The functions of tls.h for one connection; they pass the gate. */
#ifndef DLK_TLS_CHANNEL_H
#define DLK_TLS_CHANNEL_H

#include "tls/client.h"

/* Once, inside the gate; false: out of memory. */
bool dlk_tls_channel_prepare(void);
struct dlk_tls_channel *dlk_tls_channel_open(struct dlk_tls_client *client,
                                             const char *host, uint16_t port,
                                             struct dlk_tls_fault *fault);
void dlk_tls_channel_free(struct dlk_tls_channel *c);
void dlk_tls_channel_feed(struct dlk_tls_channel *c, const char *p, size_t n);
void dlk_tls_channel_keep(struct dlk_tls_channel *c);
bool dlk_tls_channel_pending(const struct dlk_tls_channel *c);
const char *dlk_tls_channel_out(const struct dlk_tls_channel *c, size_t *n);
void dlk_tls_channel_sent(struct dlk_tls_channel *c, size_t n);
enum dlk_tls_step dlk_tls_channel_handshake(struct dlk_tls_channel *c);
enum dlk_tls_step dlk_tls_channel_read(struct dlk_tls_channel *c, char *p,
                                       size_t n, size_t *did);
enum dlk_tls_step dlk_tls_channel_write(struct dlk_tls_channel *c,
                                        const char *p, size_t n, size_t *did);
void dlk_tls_channel_finish(struct dlk_tls_channel *c);
void dlk_tls_channel_fault(const struct dlk_tls_channel *c,
                           struct dlk_tls_fault *fault);
const char *dlk_tls_channel_protocol(const struct dlk_tls_channel *c);
bool dlk_tls_channel_resumed(const struct dlk_tls_channel *c);
bool dlk_tls_channel_renew_keys(struct dlk_tls_channel *c);

#endif
