/* Tokens: 128 random bits tell acquisitions apart; the client's digits say on
 * which channel its messages are read; the owner is for people. Every token
 * that waits or holds is in the map, so that a message finds its lease, and a
 * message for a token that is in nobody's hands is known as such. */
#include <stdio.h>

#include "store/redis/op/machine.h"

static void hex(char *out, const unsigned char *in, size_t n) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < n; i++) {
    *out++ = digits[in[i] >> 4];
    *out++ = digits[in[i] & 15];
  }
}

/* Printable, without blanks: messages are split at blanks. */
static size_t put_owner(char *out, const char *owner) {
  size_t n = 0;
  for (; owner && owner[n] && n < DLK_REDIS_OWNER_MAX; n++)
    out[n] = owner[n] > ' ' && owner[n] < 127 ? owner[n] : '_';
  return n;
}

void dlk_redis_token_put(struct dlk_redis *s, struct dlk_redis_hold *h) {
  /* Without memory for the map, messages for this token are not heard; the
   * refresh and the renewal find out the same, later. */
  (void)dlk_map_put(&s->tokens, &h->node, h->token, h->token_len);
}

void dlk_redis_token_make(struct dlk_redis *s, struct dlk_redis_hold *h) {
  unsigned char bits[16];
  s->host->random(s->host, bits, sizeof bits);
  hex(h->token, bits, sizeof bits);
  h->token[32] = ':';
  memcpy(h->token + 33, s->client, 16);
  h->token[49] = ':';
  size_t n = put_owner(h->token + DLK_REDIS_OWNER_AT, h->lease->owner);
  h->token_len = (uint8_t)(DLK_REDIS_OWNER_AT + n);
  h->token[h->token_len] = '\0';
}

void dlk_redis_token_new(struct dlk_redis *s, struct dlk_redis_hold *h) {
  dlk_redis_token_drop(s, h);
  dlk_redis_token_make(s, h);
  dlk_redis_token_put(s, h);
}

void dlk_redis_token_drop(struct dlk_redis *s, struct dlk_redis_hold *h) {
  if (h->node.queued)
    dlk_map_remove(&s->tokens, &h->node);
}

void dlk_redis_token_move(struct dlk_redis *s, struct dlk_redis_hold *from,
                          struct dlk_redis_hold *to) {
  to->token_len = from->token_len;
  memcpy(to->token, from->token, from->token_len + 1u);
  from->token_len = 0;
  if (from->node.queued)
    dlk_map_replace(&s->tokens, &from->node, &to->node, to->token);
}

struct dlk_redis_hold *dlk_redis_token_find(struct dlk_redis *s,
                                            const char *token, size_t len) {
  struct dlk_map_node *n = dlk_map_get(&s->tokens, token, len);
  return n ? DLK_CONTAINER(n, struct dlk_redis_hold, node) : NULL;
}

void dlk_redis_holder_text(char out[DLK_HOLDER_MAX], const char *value,
                           size_t len) {
  if (len == 0)
    out[0] = '\0';
  else if (len >= 2 && memcmp(value, "~s", 2) == 0)
    snprintf(out, DLK_HOLDER_MAX, "shared holders");
  else if (len > DLK_REDIS_OWNER_AT && len <= DLK_REDIS_TOKEN_MAX &&
           value[32] == ':' && value[49] == ':')
    snprintf(out, DLK_HOLDER_MAX, "%.*s", (int)(len - DLK_REDIS_OWNER_AT),
             value + DLK_REDIS_OWNER_AT);
  else
    snprintf(out, DLK_HOLDER_MAX, "another client");
  for (char *c = out; *c; c++)
    if (*c < ' ' || *c > 126)
      *c = '?';
}
