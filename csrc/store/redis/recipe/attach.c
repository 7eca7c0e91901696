/* Detach and attach.
 *
 * The string: "2 ttl fence units cap key-length token-length " key token; with
 * 3 in place of 2 an attach keeps the owner's name.
 *
 * I1 One script replaces the string's token by one of ours. So the first attach
 *    gets the lease, and for the others it is lost. Fence, place and queue
 *    stay.
 * I2 Detach and attach renew once, or only ask for a hold that is not renewed.
 *    Prolonging is a renewal in the string's token.
 * I3 The attached lease has a max_hold of its own.
 *
 * Reply lost: the same token asks again. The server finds it, or changes it
 * now. Given up: the change is undone (orphan.c), so the string can be attached
 * again; of an `unused` string both tokens are released. Late request without
 * CLIENT KILL: it finds the string's token only if nobody attached it since,
 * and is undone as well, at each beat. */
#include "store/redis/recipe/attach.h"

#include <hiredis/hiredis.h>

#include "core/digits.h"
#include "store/redis/op/orphan.h"
#include "store/redis/recipe/hold.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/reply.h"

/* The hold is ours, and the server gave it `left` ms before it prolonged it. A
 * hold that is not renewed counts as one that was sent for when its whole ttl
 * was left. */
static bool taken_over(struct dlk_redis_try *t, int64_t left) {
  struct dlk_lease *lease = t->op->lease;
  int64_t gone = lease->ttl - dlk_from_ms(left);
  lease->sent = t->call.req.sent;
  if (!t->op->renew && gone > 0)
    lease->sent -= gone;
  return dlk_redis_extended(t->store, dlk_redis_try_hold(t), left, lease->ttl,
                            lease->sent);
}

static void detached(struct dlk_redis_try *t, const redisReply *reply) {
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  const struct dlk_lease *lease = t->op->lease;
  dlk_redis_asked(t->store, h, reply);
  if (!taken_over(t, dlk_redis_number(reply, -1))) {
    dlk_redis_done_code(t, DLK_LOST);
    return;
  }
  struct dlk_buf b = {0};
  dlk_buf_addf(&b, "%d %lld %lld %u %u %zu %u ", t->op->names ? 3 : 2,
               (long long)dlk_to_ms(lease->ttl), (long long)lease->fence,
               lease->want.units, lease->want.cap, lease->key_len,
               (unsigned)h->token.len);
  dlk_buf_add(&b, lease->key, lease->key_len);
  dlk_buf_add(&b, h->token.text, h->token.len);
  struct dlk_value *v = b.failed ? NULL : dlk_value_string(b.data, b.len);
  dlk_buf_free(&b);
  if (v)
    dlk_redis_token_drop(&t->store->tokens, &h->token);
  dlk_redis_finish(t, v);
}

/* With a ttl of 0 the hold's end stays. */
static void renew_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  dlk_redis_renew_args(t->store, dlk_redis_try_hold(t),
                       t->op->renew ? t->op->lease->ttl : 0, DLK_REDIS_AT_LEAST,
                       out);
}

static const struct dlk_redis_step detaching = {.aim = DLK_REDIS_TO_DETACH,
                                                .script = DLK_REDIS_RENEW,
                                                .args = renew_args,
                                                .answer = detached};

void dlk_redis_detach(struct dlk_redis_try *t) {
  t->call.holds = t->op->lease->ttl;
  dlk_redis_send(t, &detaching);
}

/* One number and the blank behind it; -1 when there is none. */
static int64_t next_number(const char **at, const char *end) {
  int64_t n = dlk_digits(at, end, 18);
  if (n < 0 || *at == end || **at != ' ')
    return -1;
  ++*at;
  return n;
}

/* A string taken apart. */
struct detached_lease {
  bool keeps_owner;
  int64_t ttl, fence; /* ttl in ms */
  uint32_t units, cap;
  const char *key; /* in the string, and behind it the token */
  size_t key_len, token_len;
};

static bool parse(const char *at, size_t len, struct detached_lease *d) {
  const char *end = at + len;
  int64_t n[7];
  for (int i = 0; i < 7; i++)
    if ((n[i] = next_number(&at, end)) < 0)
      return false;
  int64_t key_len = n[5], token_len = n[6];
  if (n[0] < 2 || n[0] > 3 || n[1] < 1 || n[1] > DLK_MS_MAX ||
      n[3] > UINT32_MAX || n[4] > UINT32_MAX || key_len < 1 ||
      key_len > DLK_KEY_MAX || token_len < DLK_REDIS_OWNER_AT ||
      token_len > DLK_REDIS_TOKEN_MAX || end - at != key_len + token_len)
    return false;
  *d = (struct detached_lease){.keeps_owner = n[0] == 3,
                               .ttl = n[1],
                               .fence = n[2],
                               .units = (uint32_t)n[3],
                               .cap = (uint32_t)n[4],
                               .key = at,
                               .key_len = (size_t)key_len,
                               .token_len = (size_t)token_len};
  return true;
}

/* The engine made the lease's key a copy of the whole string, so that the key
 * proper, inside it, lives as long as the lease. */
static bool fill_lease(struct dlk_redis_try *t) {
  struct dlk_lease *lease = t->op->lease;
  struct detached_lease d;
  if (!parse(lease->key, lease->key_len, &d))
    return false;
  lease->key = d.key;
  lease->key_len = d.key_len;
  lease->ttl = dlk_from_ms(d.ttl);
  lease->fence = d.fence;
  lease->want.units = d.units;
  lease->want.cap = d.cap;
  if (d.keeps_owner) {
    struct dlk_redis_token *own = &dlk_redis_try_hold(t)->token;
    memcpy(own->text, d.key + d.key_len, d.token_len);
    own->text[d.token_len] = '\0';
    lease->owner = own->text + DLK_REDIS_OWNER_AT;
  }
  return true;
}

/* What it has for a key may be a token. */
static void not_a_string(struct dlk_redis_try *t) {
  struct dlk_error err;
  t->op->key_len = 0;
  dlk_error_set(&err, DLK_INVALID,
                "this is not a string that lease:detach() gave on Redis");
  dlk_redis_done(t, &err);
}

/* The token in the string. */
static const char *old_token(const struct dlk_redis_try *t, size_t *len) {
  struct detached_lease d = {0};
  (void)parse(t->op->text, t->op->text_len, &d);
  *len = d.token_len;
  return d.key + d.key_len;
}

void dlk_redis_undo_attach(struct dlk_redis_try *t) {
  const struct dlk_lease *lease = t->op->lease;
  size_t len;
  const char *old = old_token(t, &len);
  const struct dlk_redis_token *ours = &dlk_redis_try_hold(t)->token;
  int64_t until = dlk_time_add(dlk_redis_now(t->store), lease->ttl);
  if (t->op->kind != DLK_OP_ATTACH || !t->op->unused) {
    dlk_redis_orphan_attach(t->store, lease, ours, old, len, until);
    return;
  }
  struct dlk_redis_token its = {.len = (uint8_t)len};
  memcpy(its.text, old, len);
  dlk_redis_orphan(t->store, lease->key, lease->key_len, &its, until);
  dlk_redis_orphan(t->store, lease->key, lease->key_len, ours, until);
}

static void attached(struct dlk_redis_try *t, const redisReply *reply) {
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  int64_t left = dlk_redis_number(reply, -1), now = dlk_redis_now(t->store);
  if (t->call.scarce && left >= 0) {
    dlk_redis_scarce(t);
    return;
  }
  bool ours = taken_over(t, left);
  if (ours && (t->op->renew || h->server_min_end > now)) {
    h->granted = now;
    h->server_max_end = dlk_time_add(now, h->lease->min_hold);
    dlk_redis_token_put(&t->store->tokens, &h->token);
    dlk_redis_done(t, NULL);
    return;
  }
  if (ours)
    dlk_redis_orphan(t->store, t->call.key, t->call.key_len, &h->token,
                     dlk_time_add(now, t->op->lease->ttl));
  struct dlk_error err;
  char key[DLK_QUOTED_MAX];
  dlk_error_set(&err, DLK_LOST,
                "%s: the detached lease expired, was attached, released or "
                "broken",
                dlk_quote(key, t->call.key, t->call.key_len));
  dlk_redis_done(t, &err);
}

static void attach_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  size_t len;
  const char *old = old_token(t, &len);
  dlk_redis_put(out, old, len);
  renew_args(t, out);
}

static const struct dlk_redis_step attaching = {.aim = DLK_REDIS_TO_ATTACH,
                                                .script = DLK_REDIS_ATTACH,
                                                .args = attach_args,
                                                .answer = attached,
                                                .back = dlk_redis_undo_attach};

void dlk_redis_attach(struct dlk_redis_try *t) {
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  h->lease = t->op->lease;
  h->call.store = t->store;
  bool good = fill_lease(t) && dlk_redis_call_key(&h->call, t->op->lease->key,
                                                  t->op->lease->key_len);
  if (!good) {
    not_a_string(t);
    return;
  }
  dlk_redis_token_make(&t->store->tokens, t->store->host, &h->token,
                       h->lease->owner);
  t->op->key = h->lease->key;
  t->op->key_len = h->lease->key_len;
  t->placed = true; /* if not ours, then the string's token */
  (void)dlk_redis_call_key(&t->call, t->op->key, t->op->key_len);
  t->call.holds = t->op->lease->ttl;
  dlk_redis_send(t, &attaching);
}

/* ---- prolong ---- */

static void prolong_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  struct detached_lease d = {0};
  (void)parse(t->op->text, t->op->text_len, &d);
  dlk_redis_put(out, d.key + d.key_len, d.token_len);
  dlk_redis_put_int(out, dlk_to_ms(t->op->ttl));
  dlk_redis_put_int(out, d.fence);
  dlk_redis_put_int(out, 0); /* young: it was noted by the detach */
  dlk_redis_put_int(out, DLK_REDIS_AT_LEAST);
}

static void prolonged(struct dlk_redis_try *t, const redisReply *reply) {
  int64_t left = dlk_redis_number(reply, -1);
  if (left < 0) {
    dlk_redis_done_code(t, DLK_LOST);
    return;
  }
  left = dlk_from_ms(left) > t->op->ttl ? dlk_from_ms(left) : t->op->ttl;
  dlk_redis_finish(t, dlk_value_number((double)left / (double)DLK_SEC));
}

static const struct dlk_redis_step prolonging = {.aim = DLK_REDIS_TO_READ,
                                                 .script = DLK_REDIS_RENEW,
                                                 .args = prolong_args,
                                                 .answer = prolonged};

void dlk_redis_prolong(struct dlk_redis_try *t) {
  struct detached_lease d;
  if (!parse(t->op->text, t->op->text_len, &d) ||
      !dlk_redis_call_key(&t->call, d.key, d.key_len)) {
    not_a_string(t);
    return;
  }
  t->op->key = d.key;
  t->op->key_len = d.key_len;
  if (t->op->ttl < 0)
    t->op->ttl = dlk_from_ms(d.ttl);
  dlk_redis_send(t, &prolonging);
}
