/* The context and the sessions:
 * I1 The files' stamps are compared before each connection, so renewed
 *   certificates are used. Files that do not fit yet (a renewal writes one
 *   after the other) leave the old context.
 * I2 A session goes with the context that verified its server.
 * I3 A handshake that resumes a session verifies nothing. So each session keeps
 *   the chain of its first handshake, and is not resumed outside of its dates.
 * I4 A session is used once: a second use could be linked to the first (TLS
 *   1.3), and a refused session is not tried again. */
#include "tls/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tls/context.h"
#include "tls/gate.h"

struct dlk_tls_client *
dlk_tls_client_new(const struct dlk_tls_settings *settings) {
  struct dlk_tls_client *client = calloc(1, sizeof *client);
  if (client)
    client->settings = settings;
  return client;
}

static void free_ticket(struct dlk_tls_ticket *t) {
  SSL_SESSION_free(t->session);
  sk_X509_pop_free(t->chain, X509_free);
  *t = (struct dlk_tls_ticket){0};
}

static bool is_in_time(const struct dlk_tls_ticket *t) {
  bool fine = true;
  for (int i = 0; t->chain && i < sk_X509_num(t->chain); i++) {
    const X509 *x = sk_X509_value(t->chain, i);
    fine = fine && X509_cmp_time(X509_get0_notBefore(x), NULL) < 0 &&
           X509_cmp_time(X509_get0_notAfter(x), NULL) > 0;
  }
  return fine;
}

static void forget(struct dlk_tls_kept *k) {
  free_ticket(&k->ticket);
  memset(k, 0, sizeof *k);
}

static void drop_context(struct dlk_tls_client *client) {
  for (int i = 0; i < DLK_TLS_SESSIONS; i++)
    forget(&client->kept[i]);
  SSL_CTX_free(client->ctx);
  client->ctx = NULL;
}

void dlk_tls_client_free(struct dlk_tls_client *client) {
  if (!client || !dlk_tls_enter())
    return;
  drop_context(client);
  free(client);
  dlk_tls_leave();
}

SSL_CTX *dlk_tls_client_context(struct dlk_tls_client *client,
                                struct dlk_tls_fault *fault) {
  const struct dlk_tls_settings *s = client->settings;
  struct dlk_tls_stamp now[DLK_TLS_FILES] = {
      dlk_tls_file_stamp(s->cafile), dlk_tls_file_stamp_all(s->capath),
      dlk_tls_file_stamp(s->cert), dlk_tls_file_stamp(s->key),
      dlk_tls_file_stamp(s->key_password_file)};
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

/* The peer's place; else the free one, or the one used longest ago. */
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

struct dlk_tls_ticket dlk_tls_client_take(struct dlk_tls_client *client,
                                          const char *peer) {
  struct dlk_tls_kept *k = place_of(client, peer);
  struct dlk_tls_ticket none = {0}, t = k->ticket;
  if (strcmp(k->peer, peer) != 0)
    return none;
  k->ticket = none;
  if (t.session && !is_in_time(&t))
    free_ticket(&t);
  return t;
}

void dlk_tls_client_keep(struct dlk_tls_client *client, const char *peer,
                         SSL_SESSION *session, STACK_OF(X509) * chain) {
  struct dlk_tls_ticket t = {session, chain ? X509_chain_up_ref(chain) : NULL};
  if (chain && !t.chain) {
    free_ticket(&t);
    return;
  }
  struct dlk_tls_kept *k = place_of(client, peer);
  forget(k);
  snprintf(k->peer, sizeof k->peer, "%s", peer);
  k->ticket = t;
  k->used = ++client->clock;
}
