/* Holds with on_revoke where no notices come: once a second one call asks for
 * all of them whether somebody wants the lock. It is a renewal without a span,
 * which changes nothing. Its answer names holds by their tokens, because one
 * may be given up meanwhile. */
#include "store/sql/recipe/recipe.h"

#define EVERY DLK_SEC
#define MOST 100

static void arm(struct dlk_sql_store *s);

static void answered(struct dlk_sql_call *call) {
  struct dlk_sql_store *s = call->who;
  bool good = call->verdict == DLK_SQL_GOOD;
  s->heeding = false;
  for (size_t row = 0; good && !s->stopping && row < call->rows; row++) {
    uint64_t at = (uint64_t)dlk_sql_number(call, row, 0, INT64_MAX);
    if (dlk_sql_number(call, row, 2, 0) == 0 || at >= call->count / 3)
      continue;
    const struct dlk_sql_cell *token = &call->params[3 * at + 1];
    struct dlk_map_node *n =
        dlk_map_get(&s->tokens, call->bytes.data + token->at, DLK_SQL_TOKEN);
    struct dlk_sql_hold *h =
        n ? DLK_CONTAINER(n, struct dlk_sql_hold, node) : NULL;
    if (h && !h->waiting)
      s->host->revoked(s->host, h->lease);
  }
  dlk_sql_call_free(call);
  arm(s);
}

static void ask(struct dlk_timer *timer, int64_t now) {
  struct dlk_sql_store *s = DLK_CONTAINER(timer, struct dlk_sql_store, heed);
  struct dlk_sql_worker *w =
      s->hears == 1 ? NULL : dlk_sql_worker_of(s, DLK_SQL_B);
  struct dlk_sql_call *call =
      w ? dlk_sql_call_new(DLK_SQL_RENEW, answered, s) : NULL;
  size_t count = 0;
  for (struct dlk_list *l = s->heeds.next;
       call && l != &s->heeds && count < MOST; l = l->next, count++) {
    struct dlk_sql_hold *h = DLK_CONTAINER(l, struct dlk_sql_hold, heed);
    dlk_sql_put_key(call, s, h->lease->key, h->lease->key_len);
    dlk_sql_put_bytes(call, h->token, DLK_SQL_TOKEN);
    dlk_sql_put_number(call, 0);
  }
  if (!call || call->failed || count == 0) {
    if (call)
      dlk_sql_call_free(call);
    arm(s);
    return;
  }
  /* Others' turn next. */
  while (count-- > 0) {
    struct dlk_list *l = s->heeds.next;
    dlk_list_remove(l);
    dlk_list_append(&s->heeds, l);
  }
  s->heeding = true;
  call->deadline = dlk_time_add(now, s->conf.io_timeout);
  dlk_sql_worker_put(w, call);
}

static void arm(struct dlk_sql_store *s) {
  if (s->stopping || s->heeding || dlk_list_empty(&s->heeds))
    return;
  s->heed.fire = ask;
  s->host->timer_set(s->host, &s->heed, dlk_sql_now(s) + EVERY);
}

void dlk_sql_heed(struct dlk_sql_hold *h) {
  bool first = dlk_list_empty(&h->store->heeds);
  if (h->heeds)
    return;
  h->heeds = true;
  dlk_list_append(&h->store->heeds, &h->heed);
  if (first)
    arm(h->store);
}
