/* See still_link.h. */
#include "still_link.h"

#include <string.h>

static struct still_link *of(const struct dlk_redis_link *link) {
  return DLK_CONTAINER(link, struct still_link, link);
}

static void link_submit(struct dlk_redis_link *link,
                        struct dlk_redis_req *req) {
  struct still_link *s = of(link);
  if (s->submits)
    s->submits(s, req);
  dlk_list_append(&s->waiting, &req->entry);
}

static struct dlk_redis_req *first(const struct still_link *s) {
  return DLK_CONTAINER(s->waiting.next, struct dlk_redis_req, entry);
}

size_t still_waiting(const struct still_link *s) {
  size_t n = 0;
  for (struct dlk_list *l = s->waiting.next; l != &s->waiting; l = l->next)
    n++;
  return n;
}

struct dlk_redis_req *still_write(struct still_link *s, int id, int64_t now,
                                  struct dlk_buf *out) {
  struct dlk_redis_req *req = first(s);
  dlk_list_remove(&req->entry);
  s->written[s->count].id = id;
  s->written[s->count++].req = req;
  req->got = 0;
  req->sent = now;
  req->encode(req, out);
  return req;
}

struct dlk_redis_req *still_take(struct still_link *s, size_t i) {
  struct dlk_redis_req *req = s->written[i].req;
  memmove(s->written + i, s->written + i + 1,
          (--s->count - i) * sizeof s->written[0]);
  return req;
}

static void end(struct dlk_redis_req *req, enum dlk_redis_outcome outcome,
                enum dlk_code code) {
  struct dlk_error err;
  struct dlk_redis_answer a = {.outcome = outcome, .err = &err};
  dlk_error_set(&err, code, "cut");
  req->done(req, &a);
}

void still_lose(struct still_link *s, size_t i, enum dlk_code code) {
  end(still_take(s, i), DLK_REDIS_UNKNOWN, code);
}

void still_refuse(struct still_link *s, enum dlk_code code) {
  for (size_t n = still_waiting(s); n > 0 && !dlk_list_empty(&s->waiting);
       n--) {
    struct dlk_redis_req *req = first(s);
    dlk_list_remove(&req->entry);
    end(req, DLK_REDIS_UNSENT, code);
  }
}

static bool link_withdraw(struct dlk_redis_link *link,
                          struct dlk_redis_req *req) {
  struct still_link *s = of(link);
  for (struct dlk_list *l = s->waiting.next; l != &s->waiting; l = l->next)
    if (l == &req->entry) {
      dlk_list_remove(l);
      return true;
    }
  return false;
}

static void link_subscribe(struct dlk_redis_link *link, int slot) {
  struct still_link *s = of(link);
  s->wanted = true;
  s->wanted_slot = slot;
  if (s->subscribed)
    dlk_redis_slots_put(&s->asked, slot, true);
}

static bool link_subscribed(struct dlk_redis_link *link, int slot) {
  const struct still_link *s = of(link);
  return s->subscribed && (slot < 0 || !s->sharded ||
                           dlk_redis_slots_has(&s->acknowledged, slot));
}

static void link_unsubscribe(struct dlk_redis_link *link) {
  of(link)->wanted = false;
}

static void link_retreat(struct dlk_redis_link *link,
                         const struct dlk_error *why) {
  (void)why;
  of(link)->retreating = true;
}

static void link_flush(struct dlk_redis_link *link) {
  (void)link;
}

static bool link_await(struct dlk_redis_link *link) {
  (void)link;
  return false;
}

static bool link_prompt(struct dlk_redis_link *link) {
  const struct still_link *s = of(link);
  return s->up && !s->retreating && (s->subscribed || !s->wanted);
}

static void link_stop(struct dlk_redis_link *link) {
  struct still_link *s = of(link);
  s->subscribed = false;
  while (s->count > 0 || !dlk_list_empty(&s->waiting)) {
    if (s->count > 0)
      still_lose(s, 0, DLK_CLOSED);
    else
      still_refuse(s, DLK_CLOSED);
  }
  s->events->stopped(s->arg);
}

static void link_destroy(struct dlk_redis_link *link) {
  if (of(link)->destroys)
    of(link)->destroys(of(link));
}

void still_init(struct still_link *s,
                const struct dlk_redis_link_events *events, void *arg) {
  s->link.submit = link_submit;
  s->link.withdraw = link_withdraw;
  s->link.subscribe = link_subscribe;
  s->link.subscribed = link_subscribed;
  s->link.unsubscribe = link_unsubscribe;
  s->link.retreat = link_retreat;
  s->link.flush = link_flush;
  s->link.await = link_await;
  s->link.prompt = link_prompt;
  s->link.stop = link_stop;
  s->link.destroy = link_destroy;
  s->link.served = true;
  s->link.connections = 1;
  s->events = events;
  s->arg = arg;
  s->up = true;
  s->wanted_slot = DLK_REDIS_ANY_SLOT;
  dlk_list_init(&s->waiting);
}

/* ---- what the router asks of a node's link ---- */

bool dlk_redis_net_stands(const struct dlk_redis_link *link) {
  return of(link)->up;
}

enum dlk_redis_form dlk_redis_net_form(const struct dlk_redis_link *link) {
  return of(link)->sharded ? DLK_REDIS_SHARDED : DLK_REDIS_CLASSIC;
}

void dlk_redis_net_quit(struct dlk_redis_link *link, int slot) {
  dlk_redis_slots_put(&of(link)->asked, slot, false);
  dlk_redis_slots_put(&of(link)->acknowledged, slot, false);
}

struct dlk_list *dlk_redis_net_waiting(struct dlk_redis_link *link) {
  return &of(link)->waiting;
}
