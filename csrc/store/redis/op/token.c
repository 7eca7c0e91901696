/* Tokens: 128 random bits tell acquisitions apart; the client's digits name its
 * channel; the owner is for people. Tokens that wait or hold are in the map, so
 * a message finds its lease, and one for another token is known as such. */
#include "store/redis/op/token.h"

#include <stdio.h>
#include <string.h>

#include "core/digits.h"
#include "store/redis/wire/codec.h"

void dlk_redis_token_put(struct dlk_redis_tokens *all,
                         struct dlk_redis_token *t) {
  /* Without memory its messages are not heard; refresh and renewal find out. */
  (void)dlk_map_put(&all->map, &t->node, t->text, t->len);
}

void dlk_redis_token_make(struct dlk_redis_tokens *all, struct dlk_host *host,
                          struct dlk_redis_token *t, const char *owner) {
  unsigned char bits[16];
  host->random(host, bits, sizeof bits);
  (void)dlk_hex(t->text, bits, sizeof bits);
  t->text[32] = ':';
  memcpy(t->text + 33, all->client, DLK_REDIS_CLIENT);
  t->text[49] = ':';
  size_t n = owner ? strnlen(owner, DLK_REDIS_OWNER_MAX) : 0;
  if (n > 0) /* it may be the one that stands there already */
    memmove(t->text + DLK_REDIS_OWNER_AT, owner, n);
  t->len = (uint8_t)(DLK_REDIS_OWNER_AT + n);
  t->text[t->len] = '\0';
}

void dlk_redis_token_drop(struct dlk_redis_tokens *all,
                          struct dlk_redis_token *t) {
  if (t->node.queued)
    dlk_map_remove(&all->map, &t->node);
}

void dlk_redis_token_move(struct dlk_redis_tokens *all,
                          struct dlk_redis_token *from,
                          struct dlk_redis_token *to) {
  to->len = from->len;
  memcpy(to->text, from->text, from->len + 1u);
  from->len = 0;
  if (from->node.queued)
    dlk_map_replace(&all->map, &from->node, &to->node, to->text);
}

struct dlk_redis_token *dlk_redis_token_find(struct dlk_redis_tokens *all,
                                             const char *text, size_t len) {
  struct dlk_map_node *n = dlk_map_get(&all->map, text, len);
  return n ? DLK_CONTAINER(n, struct dlk_redis_token, node) : NULL;
}

struct dlk_redis_token_end
dlk_redis_token_end(const struct dlk_redis_token *t) {
  struct dlk_redis_token_end end = {""};
  memcpy(end.text, t->text + DLK_REDIS_RANDOM - 4, 4);
  return end;
}

void dlk_redis_put_token(struct dlk_buf *out, const struct dlk_redis_token *t) {
  dlk_redis_put(out, t->text, t->len);
}

static bool is_token(const char *value, size_t len) {
  return len > DLK_REDIS_OWNER_AT && len <= DLK_REDIS_TOKEN_MAX &&
         value[DLK_REDIS_RANDOM] == ':' && value[DLK_REDIS_OWNER_AT - 1] == ':';
}

bool dlk_redis_token_is_of(const struct dlk_redis_tokens *all, const char *text,
                           size_t len) {
  return is_token(text, len) && memcmp(text + DLK_REDIS_RANDOM + 1, all->client,
                                       DLK_REDIS_CLIENT) == 0;
}

const char *dlk_redis_owner_in(const char *value, size_t len,
                               size_t *owner_len) {
  if (!is_token(value, len))
    return NULL;
  *owner_len = len - DLK_REDIS_OWNER_AT;
  return value + DLK_REDIS_OWNER_AT;
}

void dlk_redis_holder_text(char out[DLK_HOLDER_MAX], const char *value,
                           size_t len) {
  size_t n = 0;
  const char *owner = dlk_redis_owner_in(value, len, &n);
  if (len == 0)
    out[0] = '\0';
  else if (len >= 2 && memcmp(value, "~s", 2) == 0)
    snprintf(out, DLK_HOLDER_MAX, "shared holders");
  else
    snprintf(out, DLK_HOLDER_MAX, "%.*s", owner ? (int)n : DLK_HOLDER_MAX,
             owner ? owner : DLK_REDIS_FOREIGN);
}
