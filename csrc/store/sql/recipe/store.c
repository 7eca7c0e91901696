/* Hands each operation to its file, and ends the store. Files call only those
 * before:
 *
 *   work.c     the two workers, notices, tokens and orphans
 *   try.c      one operation under way
 *   heed.c     holds that ask whether they are asked for
 *   attach.c, hold.c, acquire.c, admin.c    the operations
 *
 * The loop's owner runs everything here. */
#include <stdio.h>
#include <stdlib.h>

#include "store/sql/recipe/recipe.h"

const char *dlk_sql_prefix(const char *given) {
  return given ? given : "";
}

/* ---- the beginning ---- */

enum dlk_code dlk_sql_create(struct dlk_host *host, const struct dlk_conf *conf,
                             const struct dlk_sql_dialect *dialect, bool ok,
                             struct dlk_sql_place places[2], bool deaf,
                             void **out, struct dlk_error *err) {
  struct dlk_sql_store *s = ok ? calloc(1, sizeof *s) : NULL;
  *out = s;
  if (s)
    s->prefix = strdup(conf->prefix);
  if (!s || !s->prefix) {
    dlk_sql_place_free(&places[0]);
    dlk_sql_place_free(&places[1]);
    free(s);
    *out = NULL;
    return dlk_conf_refuse(err, DLK_UNAVAILABLE, conf, "out of memory");
  }
  s->host = host;
  s->conf = *conf;
  s->dialect = dialect;
  s->places[0] = places[0];
  s->places[1] = places[1];
  s->deaf = deaf;
  s->hears = deaf ? 0 : -1;
  s->renews_on = DLK_SQL_B;
  dlk_list_init(&s->tries);
  dlk_list_init(&s->orphans);
  dlk_list_init(&s->heeds);
  return DLK_OK;
}

/* Not at create: a fork may lie between. */
static void begin(struct dlk_sql_store *s) {
  uint32_t seed;
  if (s->begun)
    return;
  s->begun = true;
  s->host->random(s->host, s->client, sizeof s->client);
  s->host->random(s->host, &seed, sizeof seed);
  dlk_map_init(&s->tokens, seed);
  int n = snprintf(s->channel, sizeof s->channel, "dlock_");
  for (int i = 0; i < DLK_SQL_CLIENT; i++)
    n += snprintf(s->channel + n, sizeof s->channel - (size_t)n, "%02x",
                  s->client[i]);
}

void dlk_sql_submit(void *store, struct dlk_op *op) {
  static void (*const kinds[])(struct dlk_sql_try *) = {
      [DLK_OP_ACQUIRE] = dlk_sql_acquire,
      [DLK_OP_RELEASE] = dlk_sql_release,
      [DLK_OP_EXTEND] = dlk_sql_extend,
      [DLK_OP_PING] = dlk_sql_ping,
      [DLK_OP_LOCKED] = dlk_sql_locked,
      [DLK_OP_DETACH] = dlk_sql_detach,
      [DLK_OP_ATTACH] = dlk_sql_attach,
      [DLK_OP_PROLONG] = dlk_sql_prolong,
      [DLK_OP_INSPECT] = dlk_sql_inspect,
      [DLK_OP_LIST] = dlk_sql_list,
      [DLK_OP_BREAK] = dlk_sql_break,
      [DLK_OP_REVOKE] = dlk_sql_revoke,
      [DLK_OP_GUARD] = dlk_sql_guard,
      [DLK_OP_DOWNGRADE] = dlk_sql_downgrade,
      [DLK_OP_PUBLISH] = dlk_sql_publish,
      [DLK_OP_LISTEN] = dlk_sql_listen_op,
      [DLK_OP_CHANGE] = dlk_sql_change,
  };
  struct dlk_sql_store *s = store;
  struct dlk_sql_try *t = dlk_sql_try_of(op);
  begin(s);
  t->store = s;
  t->op = op;
  dlk_list_append(&s->tries, &t->entry);
  kinds[op->kind](t);
}

void dlk_sql_cancel(void *store, struct dlk_op *op) {
  struct dlk_sql_try *t = dlk_sql_try_of(op);
  (void)store;
  if (op->kind == DLK_OP_ACQUIRE) {
    dlk_sql_acquire_cancel(t);
  } else if (op->kind == DLK_OP_RELEASE) {
    dlk_sql_release_cancel(t);
  } else {
    bool unsent = t->call && dlk_sql_worker_withdraw(
                                 t->store->workers[t->step->worker], t->call);
    if (unsent)
      t->call = NULL;
    t->unsure = t->unsure || t->call;
    if (op->kind == DLK_OP_ATTACH && t->unsure)
      dlk_sql_undo_attach(t);
    dlk_sql_give_up(t);
  }
}

/* ---- the end ---- */

static void stop_late(struct dlk_timer *timer, int64_t now) {
  struct dlk_sql_store *s = DLK_CONTAINER(timer, struct dlk_sql_store, stop);
  struct dlk_sql_worker *a = s->workers[0], *b = s->workers[1];
  (void)now;
  if (a)
    dlk_sql_worker_abandon(a);
  if (b)
    dlk_sql_worker_abandon(b);
}

/* The workers run what is queued, and end. */
void dlk_sql_stop(void *store) {
  struct dlk_sql_store *s = store;
  int64_t now = dlk_sql_now(s), until = now + DLK_STOP_WAIT * 3 / 4;
  while (!dlk_list_empty(&s->tries)) {
    struct dlk_sql_try *t =
        DLK_CONTAINER(s->tries.next, struct dlk_sql_try, entry);
    if (t->op->kind == DLK_OP_ACQUIRE)
      dlk_sql_orphan(s, t->op->lease, dlk_sql_hold_of(t->op->lease)->token,
                     NULL);
    else if (t->call && t->op->kind != DLK_OP_RELEASE &&
             dlk_sql_worker_withdraw(s->workers[t->step->worker], t->call))
      t->call = NULL;
    dlk_sql_done_code(t, DLK_CLOSED);
  }
  s->stopping = true;
  s->host->timer_clear(s->host, &s->heed);
  dlk_sql_orphans_end(s);
  if (!s->workers[0] && !s->workers[1]) {
    s->host->stopped(s->host);
    return;
  }
  s->stop.fire = stop_late;
  s->host->timer_set(s->host, &s->stop, now + DLK_STOP_WAIT);
  for (int i = 0; i < 2; i++)
    if (s->workers[i])
      dlk_sql_worker_end(s->workers[i], until);
}

void dlk_sql_destroy(void *store) {
  struct dlk_sql_store *s = store;
  dlk_sql_place_free(&s->places[0]);
  dlk_sql_place_free(&s->places[1]);
  dlk_map_clear(&s->tokens);
  free(s->prefix);
  free(s);
}
