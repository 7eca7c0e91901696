/* The files (of a directory, its names) are looked at before each connection,
 * so that certificates that are renewed while the process runs are used. Who
 * renews them may write one after the other, so what does not fit is no reason
 * to give up what does: it is looked at again before the next connection. A
 * session belongs to the context in which the server was verified, and goes
 * with it.
 *
 * A handshake that resumes a session shows and verifies no certificate. The
 * first one did, so what it found is kept with each session that comes of it,
 * and no session is resumed on a day on which one of these certificates, the
 * CA's among them, would be refused. The handshake that is made in its place
 * finds out whether there are others by now.
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

static void free_ticket(struct dlk_tls_ticket *t) {
  SSL_SESSION_free(t->session);
  sk_X509_pop_free(t->chain, X509_free);
  *t = (struct dlk_tls_ticket){0};
}

/* As OpenSSL does when it verifies a chain. */
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
  drop_context(client);
  free(client);
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
  if (chain && !t.chain) { /* no memory: the next one verifies anew */
    free_ticket(&t);
    return;
  }
  struct dlk_tls_kept *k = place_of(client, peer);
  forget(k);
  snprintf(k->peer, sizeof k->peer, "%s", peer);
  k->ticket = t;
  k->used = ++client->clock;
}
