/* A lease that is held: renewals, extensions, hand-overs in the process.
 *
 * I1 A renewal never makes a hold: the script extends what carries our token
 *    and otherwise says so.
 * I2 A renewal never takes time away. Only an extension does.
 * I3 A renewal or an extension that too few replicas have (wait_replicas)
 *    counts as one that failed: the deadline stays, although the server keeps
 *    the hold for longer.
 * I4 The engine hears one answer to each renewal. So a message does not report
 *    a lease as lost while its renewal is under way; that answer then is the
 *    loss, also if the renewal came to the server before the break.
 *
 * Late renewal, after an extension: I2.
 * Late extension, after a newer one: the server has dropped the old connection
 * before (link.h). Where it may not, the hold can end early, and the fence
 * shows that. */
#include "store/redis/recipe/hold.h"

#include <hiredis/hiredis.h>

#include "store/kit/clock.h"
#include "store/redis/op/orphan.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/reply.h"

/* Another server process may lack the last extension, and then says nothing
 * about clocks. */
static void compare_clocks(struct dlk_redis *s, const struct dlk_redis_hold *h,
                           int64_t ttl, int64_t left) {
  int64_t now = dlk_redis_now(s);
  int64_t at_least = h->server_min_end - now, asked = h->server_max_end - now;
  if (!h->extended || h->server_epoch == s->link->moves)
    dlk_clock_compare(s->host, s->conf.shown, &s->clock_warned, left, at_least,
                      ttl > asked ? ttl : asked);
}

int64_t dlk_redis_held_ms(struct dlk_redis *s, const struct dlk_redis_hold *h) {
  return h->granted ? (dlk_redis_now(s) - h->granted) / DLK_MS : 0;
}

int64_t dlk_redis_min_left(struct dlk_redis *s,
                           const struct dlk_redis_hold *h) {
  int64_t min = h->lease->min_hold;
  return min <= 0 ? 0 : h->granted + min - dlk_redis_now(s);
}

int64_t dlk_redis_span(struct dlk_redis *s, const struct dlk_redis_hold *h,
                       int64_t ttl) {
  int64_t least = dlk_redis_min_left(s, h);
  return ttl > least ? ttl : least;
}

void dlk_redis_renew_args(struct dlk_redis *s, struct dlk_redis_hold *h,
                          int64_t ttl, enum dlk_redis_end end,
                          struct dlk_buf *out) {
  h->noted = true; /* by the server, whether its answer comes or not */
  dlk_redis_put_token(out, &h->token);
  dlk_redis_put_int(out, ttl ? dlk_to_ms(dlk_redis_span(s, h, ttl)) : 0);
  dlk_redis_put_int(out, h->lease->fence);
  dlk_redis_put_int(out, dlk_redis_held_ms(s, h));
  dlk_redis_put_int(out, end);
}

bool dlk_redis_extended(struct dlk_redis *s, struct dlk_redis_hold *h,
                        int64_t left, int64_t ttl, int64_t sent) {
  if (left < 0) {
    dlk_redis_token_drop(&s->tokens, &h->token);
    return false;
  }
  if (h->server_min_end)
    compare_clocks(s, h, h->lease->ttl, dlk_from_ms(left));
  h->server_min_end = dlk_lease_deadline(sent, ttl);
  h->server_epoch = s->link->moves;
  h->extended = true;
  return true;
}

void dlk_redis_asked(struct dlk_redis *s, struct dlk_redis_hold *h,
                     const redisReply *reply) {
  if (dlk_redis_int(reply, 1, 0) == 1)
    s->host->revoked(s->host, h->lease);
}

static void renewal_args(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_hold *h = DLK_CONTAINER(call, struct dlk_redis_hold, call);
  dlk_redis_renew_args(call->store, h, h->lease->ttl, DLK_REDIS_AT_LEAST, out);
}

static void renewed(struct dlk_redis_call *call,
                    const struct dlk_redis_result *r) {
  struct dlk_redis_hold *h = DLK_CONTAINER(call, struct dlk_redis_hold, call);
  struct dlk_redis *s = call->store;
  struct dlk_lease *lease = h->lease;
  if (h->broken) {
    dlk_redis_broken(s, h);
    return;
  }
  if (r->verdict == DLK_REDIS_GOOD)
    dlk_redis_asked(s, h, r->reply);
  int64_t left =
      r->verdict == DLK_REDIS_GOOD ? dlk_redis_number(r->reply, -1) : 0;
  if (r->verdict != DLK_REDIS_GOOD || (left >= 0 && call->scarce))
    s->host->renew_failed(s->host, lease);
  else if (dlk_redis_extended(s, h, left, lease->ttl, call->req.sent))
    s->host->renewed(s->host, lease, call->req.sent);
  else
    s->host->lost(s->host, lease, "it expired or was broken");
}

void dlk_redis_renew(void *store, struct dlk_lease *const *leases,
                     size_t count) {
  struct dlk_redis *s = store;
  for (size_t i = 0; i < count; i++) {
    struct dlk_redis_hold *h = dlk_redis_hold_of(leases[i]);
    h->call.holds = dlk_redis_span(s, h, leases[i]->ttl);
    h->call.args = renewal_args;
    h->call.answer = renewed;
    h->call.req.narrows = leases[i]->want.units == 0;
    dlk_redis_call_send(&h->call, DLK_REDIS_RENEW);
    s->link->subscribe(s->link, h->call.req.slot);
  }
}

/* The token stays, and the server hears nothing. The next renewal corrects the
 * note. */
void dlk_redis_hand_over(void *store, struct dlk_lease *from,
                         struct dlk_lease *to) {
  struct dlk_redis *s = store;
  struct dlk_redis_hold *a = dlk_redis_hold_of(from);
  struct dlk_redis_hold *b = dlk_redis_hold_of(to);
  b->lease = to;
  b->call.store = s;
  b->call.key = to->key;
  b->call.key_len = to->key_len;
  b->call.req.slot = a->call.req.slot;
  b->server_min_end = a->server_min_end;
  b->server_epoch = a->server_epoch;
  b->extended = a->extended;
  b->server_max_end = a->server_max_end;
  b->granted = dlk_redis_now(s);
  b->crowded = a->crowded;
  b->noted = a->noted;
  dlk_redis_token_move(&s->tokens, &a->token, &b->token);
  DLK_TRACE(b->granted, "redis", "hand-off", to->key, to->key_len,
            "fence %lld, token ..%s", (long long)to->fence,
            dlk_redis_token_end(&b->token).text);
}

void dlk_redis_broken(struct dlk_redis *s, struct dlk_redis_hold *h) {
  h->broken = true; /* for good: a token never holds twice */
  if (h->call.busy) {
    h->lease->handoffs.spare = 0; /* nor is it handed over meanwhile */
    return;
  }
  dlk_redis_token_drop(&s->tokens, &h->token);
  s->host->lost(s->host, h->lease, DLK_REDIS_BROKEN);
}

/* ---- extend ---- */

static void extend_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  dlk_redis_renew_args(t->store, dlk_redis_try_hold(t), t->op->ttl,
                       DLK_REDIS_EXACTLY, out);
}

static void extended(struct dlk_redis_try *t, const redisReply *reply) {
  dlk_redis_asked(t->store, dlk_redis_try_hold(t), reply);
  if (t->call.scarce && dlk_redis_number(reply, -1) >= 0)
    dlk_redis_scarce(t);
  else if (dlk_redis_extended(t->store, dlk_redis_try_hold(t),
                              dlk_redis_number(reply, -1), t->op->ttl,
                              t->call.req.sent)) {
    t->op->lease->sent = t->call.req.sent;
    dlk_redis_done(t, NULL);
  } else {
    dlk_redis_done_code(t, DLK_LOST);
  }
}

static const struct dlk_redis_step extending = {.aim = DLK_REDIS_TO_EXTEND,
                                                .script = DLK_REDIS_RENEW,
                                                .args = extend_args,
                                                .answer = extended,
                                                .again = dlk_redis_extend};

void dlk_redis_extend(struct dlk_redis_try *t) {
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  int64_t until = dlk_time_add(dlk_redis_now(t->store), t->op->ttl);
  if (h->server_max_end < until)
    h->server_max_end = until;
  t->call.holds = dlk_redis_span(t->store, h, t->op->ttl);
  t->call.req.narrows = t->op->lease->want.units == 0;
  dlk_redis_send(t, &extending);
  t->store->link->subscribe(t->store->link, t->call.req.slot);
}

/* ---- listen ---- */

/* The hold's end stays where it is. */
static void listen_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  dlk_redis_renew_args(t->store, dlk_redis_try_hold(t), 0, DLK_REDIS_AT_LEAST,
                       out);
}

static void listens(struct dlk_redis_try *t, const redisReply *reply) {
  dlk_redis_asked(t->store, dlk_redis_try_hold(t), reply);
  dlk_redis_done_code(t, dlk_redis_number(reply, -1) < 0 ? DLK_LOST : DLK_OK);
}

/* By the rules of a detach, which may also leave the hold as it is. */
static const struct dlk_redis_step listening = {.aim = DLK_REDIS_TO_DETACH,
                                                .script = DLK_REDIS_RENEW,
                                                .args = listen_args,
                                                .answer = listens};

void dlk_redis_listen(struct dlk_redis_try *t) {
  struct dlk_redis_link *link = t->store->link;
  dlk_redis_try_hold(t)->listens = true;
  t->call.holds = t->op->lease->ttl;
  if (link->subscribed(link, t->call.req.slot)) {
    dlk_redis_send(t, &listening);
    return;
  }
  dlk_list_append(&t->store->listeners, &t->entry);
  dlk_redis_await(t, &listening);
  link->subscribe(link, t->call.req.slot);
}

/* An earlier revoke is found now, a later one sends a message. */
void dlk_redis_listen_subscribed(struct dlk_redis *s, int slot) {
  struct dlk_list *l = s->listeners.next;
  while (l != &s->listeners) {
    struct dlk_redis_try *t = DLK_CONTAINER(l, struct dlk_redis_try, entry);
    l = l->next;
    if (dlk_redis_call_is_in(&t->call, slot)) {
      dlk_list_remove(&t->entry);
      dlk_redis_send(t, &listening);
    }
  }
}
