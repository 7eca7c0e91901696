/* In a failover the old primary goes on for a moment after the new one was
 * chosen, a second or more when it is planned. What is released in that moment
 * stays held on the new one, until its ttl is over: nobody renews it, and
 * nobody else may have it. So the last releases are remembered for a while, and
 * taken back once more as soon as another server answers. Taking back touches
 * nothing but its token (orphan.c), and a token never holds twice: where the
 * release is known, nothing happens.
 *
 * A ring of MOST, each for WHILE: more than that is left to its ttl, as is what
 * there is no memory for. Only where servers may change places. */
#include "store/redis/op/released.h"

#include <stdlib.h>
#include <string.h>

#include "store/redis/op/orphan.h"

#define MOST DLK_REDIS_RELEASED
#define WHILE (10 * DLK_SEC)

struct dlk_redis_release {
  int64_t at, until; /* the server may keep it so long */
  struct dlk_redis_token token;
  size_t key_len;
  char key[];
};

void dlk_redis_released_note(struct dlk_redis_try *t) {
  struct dlk_redis *s = t->store;
  if (!s->endpoint->changes)
    return;
  const struct dlk_redis_token *token = &dlk_redis_try_hold(t)->token;
  struct dlk_redis_release *r = malloc(sizeof *r + t->op->key_len);
  if (!r)
    return;
  r->at = dlk_redis_now(s);
  r->until = dlk_time_add(r->at, t->op->lease->ttl);
  if (r->until < dlk_redis_try_hold(t)->asked)
    r->until = dlk_redis_try_hold(t)->asked;
  memset(&r->token, 0, sizeof r->token);
  memcpy(r->token.text, token->text, token->len);
  r->token.len = token->len;
  r->key_len = t->op->key_len;
  memcpy(r->key, t->op->key, r->key_len);
  free(s->released[s->released_next]);
  s->released[s->released_next] = r;
  s->released_next = (s->released_next + 1) % MOST;
}

void dlk_redis_released_again(struct dlk_redis *s) {
  int64_t now = dlk_redis_now(s);
  for (size_t i = 0; i < MOST; i++) {
    const struct dlk_redis_release *r = s->released[i];
    if (r && now - r->at < WHILE)
      dlk_redis_orphan(s, r->key, r->key_len, &r->token, r->until);
  }
  dlk_redis_released_free(s);
}

void dlk_redis_released_free(struct dlk_redis *s) {
  for (size_t i = 0; i < MOST; i++) {
    free(s->released[i]);
    s->released[i] = NULL;
  }
}
