/* The files are looked at before each connection, so that certificates that
 * are renewed while the process runs are used. Who renews them may write one
 * after the other, so what does not fit is no reason to give up what does: it
 * is looked at again before the next connection. A session belongs to the
 * context in which the server was verified, and goes with it.
 *
 * A session is taken out to be used. TLS 1.3 wants that it is used once, since
 * a second use could be linked to the first; and one with which a handshake
 * fails is so not tried again: there are servers that refuse one that way. */
#include "tls/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tls/context.h"

struct dlk_tls_client *
dlk_tls_client_new(const struct dlk_tls_settings *settings) {
  struct dlk_tls_client *client = calloc(1, sizeof *client);
  if (client)
    client->settings = settings;
  return client;
}

static void forget(struct dlk_tls_kept *k) {
  SSL_SESSION_free(k->session);
  memset(k, 0, sizeof *k);
}

static void drop_context(struct dlk_tls_client *client) {
  for (int i = 0; i < DLK_TLS_SESSIONS; i++)
    forget(&client->kept[i]);
  SSL_CTX_free(client->ctx);
  client->ctx = NULL;
}

void dlk_tls_client_free(struct dlk_tls_client *client) {
  drop_context(client);
  free(client);
}

SSL_CTX *dlk_tls_client_context(struct dlk_tls_client *client,
                                struct dlk_tls_fault *fault) {
  const struct dlk_tls_settings *s = client->settings;
  struct dlk_tls_stamp now[DLK_TLS_FILES] = {
      dlk_tls_file_stamp(s->cafile), dlk_tls_file_stamp(s->cert),
      dlk_tls_file_stamp(s->key), dlk_tls_file_stamp(s->key_password_file)};
  bool same = client->ctx != NULL;
  for (int i = 0; i < DLK_TLS_FILES; i++)
    same = same && dlk_tls_file_same(&now[i], &client->stamps[i]);
  SSL_CTX *made = same ? NULL : dlk_tls_context_new(s, fault);
  if (made) {
    drop_context(client);
    memcpy(client->stamps, now, sizeof now);
    client->ctx = made;
  }
  return client->ctx;
}

/* Its place; if it has none, the one that is free or used longest ago. */
static struct dlk_tls_kept *place_of(struct dlk_tls_client *client,
                                     const char *peer) {
  struct dlk_tls_kept *oldest = &client->kept[0];
  for (int i = 0; i < DLK_TLS_SESSIONS; i++) {
    struct dlk_tls_kept *k = &client->kept[i];
    if (strcmp(k->peer, peer) == 0)
      return k;
    if (k->used < oldest->used)
      oldest = k;
  }
  return oldest;
}

SSL_SESSION *dlk_tls_client_take(struct dlk_tls_client *client,
                                 const char *peer) {
  struct dlk_tls_kept *k = place_of(client, peer);
  if (strcmp(k->peer, peer) != 0)
    return NULL;
  SSL_SESSION *session = k->session;
  k->session = NULL;
  return session;
}

void dlk_tls_client_keep(struct dlk_tls_client *client, const char *peer,
                         SSL_SESSION *session) {
  struct dlk_tls_kept *k = place_of(client, peer);
  forget(k);
  snprintf(k->peer, sizeof k->peer, "%s", peer);
  k->session = session;
  k->used = ++client->clock;
}
