/* Inspecting a lock is one script, so what is shown stood on the server at one
 * moment. */
#include "store/redis/recipe/inspect.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "store/kit/shown.h"
#include "store/redis/recipe/hold.h"
#include "store/redis/wire/reply.h"

static struct dlk_value *ms(int64_t n) {
  return dlk_value_number((double)n / 1000);
}

#define SHOWN 64 /* bytes of what a foreign client wrote */

/* Our token's owner, or what a foreign client wrote. */
static struct dlk_value *owner(const redisReply *token) {
  size_t n = 0;
  if (token->type != REDIS_REPLY_STRING)
    return dlk_value_string("", 0);
  const char *ours = dlk_redis_owner_in(token->str, token->len, &n);
  if (ours)
    return dlk_value_string(ours, n);
  char text[DLK_HOLDER_MAX];
  dlk_redis_holder_text(text, token->str, token->len);
  if (strcmp(text, DLK_REDIS_FOREIGN) != 0) /* those who share, all of them */
    return dlk_value_string(text, strlen(text));
  for (; n < token->len && n < SHOWN; n++)
    text[n] = token->str[n] < ' ' || token->str[n] > '~' ? '?' : token->str[n];
  return dlk_value_string(text, n);
}

/* One of ours. The counter of a hold that was not written down yet may have
 * been raised by others since, or be missing. `hold` is for elections. */
static struct dlk_value *known(struct dlk_value *v, const redisReply *token,
                               const char *fence, bool noted) {
  char digits[DLK_REDIS_ID + 1] = "";
  int64_t n = strtoll(fence, NULL, 10);
  if (token->type == REDIS_REPLY_STRING && token->len > DLK_REDIS_ID)
    memcpy(digits, token->str, DLK_REDIS_ID);
  int64_t id = strtoll(digits, NULL, 16);
  v = dlk_value_set(v, "hold", dlk_value_int(DLK_REDIS_ID_FIRST - id));
  if (!noted && (n < DLK_REDIS_FENCE_FIRST || n >= DLK_FENCE_END))
    return v;
  v = dlk_value_set(v, "fence", dlk_value_int(n));
  return noted ? v : dlk_value_set(v, "fence_at_most", dlk_value_bool(true));
}

/* A hold of this store needs no note. Elections compare what all can see, so
 * this stands beside it. Votes of a Redlock have no fence of their own. */
static struct dlk_value *own(struct dlk_value *v, struct dlk_redis *s,
                             const redisReply *token) {
  if (s->max_ttl > 0 || token->type != REDIS_REPLY_STRING)
    return v;
  struct dlk_redis_token *ours =
      dlk_redis_token_find(&s->tokens, token->str, token->len);
  struct dlk_redis_hold *h = ours ? dlk_redis_hold_by(ours) : NULL;
  if (!h || h->waiting)
    return v;
  v = dlk_value_set(v, "own_fence", dlk_value_int(h->lease->fence));
  return dlk_value_set(v, "own_since", ms(dlk_redis_held_ms(s, h)));
}

/* token, units, ms left, fence, ms held, value */
static struct dlk_value *holder(struct dlk_redis *s, const redisReply *list,
                                size_t i) {
  struct dlk_value *v = dlk_value_map();
  const redisReply *fence = dlk_redis_at(list, i + 3);
  const redisReply *value = dlk_redis_at(list, i + 5);
  int64_t left = dlk_redis_int(list, i + 2, -1);
  int64_t held = dlk_redis_int(list, i + 4, -1);
  v = dlk_value_set(v, "owner", owner(dlk_redis_at(list, i)));
  if (fence->type == REDIS_REPLY_STRING && fence->len > 0)
    v = known(v, dlk_redis_at(list, i), fence->str, held >= 0);
  if (left >= 0)
    v = dlk_value_set(v, "ttl", ms(left));
  v = held >= 0 ? dlk_value_set(v, "since", ms(held))
                : own(v, s, dlk_redis_at(list, i));
  if (value->type == REDIS_REPLY_STRING && value->len > 0)
    v = dlk_value_set(v, "value", dlk_value_string(value->str, value->len));
  return v;
}

static struct dlk_value *permit(struct dlk_redis *s, const redisReply *list,
                                size_t i) {
  return dlk_value_set(holder(s, list, i), "permits",
                       dlk_value_int(dlk_redis_int(list, i + 1, 0)));
}

/* token, units, cap, ms waited */
static struct dlk_value *waiter(struct dlk_redis *s, const redisReply *list,
                                size_t i) {
  (void)s;
  struct dlk_want want = {(uint32_t)dlk_redis_int(list, i + 1, 0),
                          (uint32_t)dlk_redis_int(list, i + 2, 0)};
  return dlk_shown_waiter(owner(dlk_redis_at(list, i)), want,
                          (double)dlk_redis_int(list, i + 3, 0) / 1000);
}

typedef struct dlk_value *show_one(struct dlk_redis *s, const redisReply *list,
                                   size_t i);

static struct dlk_value *each(struct dlk_redis *s, const redisReply *list,
                              size_t width, show_one *one) {
  struct dlk_value *v = dlk_value_list();
  for (size_t i = 0; i + width <= list->elements; i += width)
    v = dlk_value_add(v, one(s, list, i));
  return v;
}

static struct dlk_value *show(struct dlk_redis_try *t, const redisReply *r) {
  const redisReply *holders = dlk_redis_at(r, 2), *kind = dlk_redis_at(r, 0);
  bool shared = kind->type == REDIS_REPLY_STRING && kind->str[0] == 's';
  struct dlk_want want = {shared, (uint32_t)dlk_redis_int(r, 1, 0)};
  return dlk_shown_key(
      t->op, want, holders->elements > 0,
      each(t->store, holders, 6, want.cap > 0 ? permit : holder),
      each(t->store, dlk_redis_at(r, 3), 4, waiter));
}

static void inspected(struct dlk_redis_try *t, const redisReply *reply) {
  if (reply->type == REDIS_REPLY_NIL)
    dlk_redis_finish(t, dlk_value_nil());
  else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 4 &&
           reply->element[2]->type == REDIS_REPLY_ARRAY &&
           reply->element[3]->type == REDIS_REPLY_ARRAY)
    dlk_redis_finish(t, show(t, reply));
  else
    dlk_redis_done_odd(t);
}

static const struct dlk_redis_step inspecting = {
    .aim = DLK_REDIS_TO_READ, .script = DLK_REDIS_INSPECT, .answer = inspected};

void dlk_redis_inspect(struct dlk_redis_try *t) {
  dlk_redis_send(t, &inspecting);
}
