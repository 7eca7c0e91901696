/* Hands each operation to the file that knows it. Everything is run by the
 * loop's owner. The folders, each calling only those before it, and what is
 * best read first in each:
 *
 *   format/   names of nodes, what a contender's node says
 *   driver.h  what the servers do for it
 *   life/     sessions.c: opening, replacing, ending
 *   recipe/   queue.c: the admission rule; acquire.c: the recipe
 *   query/    query.c: operations that only read, or act once */
#include "store/session/query/submit.h"

#include <stdlib.h>
#include <string.h>

#include "store/session/query/query.h"
#include "store/session/recipe/acquire.h"
#include "store/session/recipe/hold.h"
#include "store/session/recipe/leave.h"
#include "store/session/recipe/standin.h"

void dlk_session_destroy(void *store) {
  struct dlk_zk_store *st = store;
  st->driver->free_client(st->sessions.client);
  free(st->base);
  dlk_map_clear(&st->by_guid);
  dlk_buf_free(&st->scratch);
  free(st);
}

void *dlk_session_create(struct dlk_host *host, const struct dlk_conf *conf,
                         const struct dlk_session_driver *driver, void *client,
                         const char *base, int64_t timeout) {
  struct dlk_zk_store *st = calloc(1, sizeof *st);
  char *copy = strdup(base);
  if (!st || !copy) {
    driver->free_client(client);
    free(st);
    free(copy);
    return NULL;
  }
  st->host = host;
  st->conf = *conf;
  st->driver = driver;
  st->base = copy;
  st->sessions.host = host;
  st->sessions.driver = driver;
  st->sessions.client = client;
  st->sessions.hooks = &dlk_zk_recipe;
  st->sessions.conf = &st->conf;
  st->sessions.timeout = timeout;
  dlk_list_init(&st->sessions.all);
  dlk_list_init(&st->sessions.closing);
  dlk_list_init(&st->rests);
  return st;
}

/* Not at create: a store opened before a fork is used after it. */
static void name_client(struct dlk_zk_store *st) {
  unsigned char random[DLK_ZK_CLIENT / 2];
  uint32_t seed;
  if (st->client[0])
    return;
  st->host->random(st->host, random, sizeof random);
  st->host->random(st->host, &seed, sizeof seed);
  dlk_zk_hex(st->client, random, sizeof random);
  dlk_map_init(&st->by_guid, seed);
}

void dlk_session_submit(void *store, struct dlk_op *op) {
  struct dlk_zk_store *st = store;
  name_client(st);
  switch (op->kind) {
  case DLK_OP_ACQUIRE:
    dlk_zk_acquire(st, op);
    break;
  case DLK_OP_RELEASE:
    dlk_zk_release(st, op);
    break;
  case DLK_OP_EXTEND:
    dlk_zk_extend(st, op);
    break;
  case DLK_OP_PING:
    dlk_zk_query_run(st, op, dlk_zk_ping_start);
    break;
  case DLK_OP_LOCKED:
    dlk_zk_query_run(st, op, dlk_zk_locked_start);
    break;
  case DLK_OP_INSPECT:
  case DLK_OP_BREAK:
  case DLK_OP_REVOKE:
    dlk_zk_query_run(st, op, dlk_zk_admin_start);
    break;
  case DLK_OP_LIST:
    if (dlk_zk_list_cursor_ok(op))
      dlk_zk_query_run(st, op, dlk_zk_list_start);
    else
      dlk_zk_done(st, op, DLK_INVALID);
    break;
  case DLK_OP_GUARD:
  case DLK_OP_DOWNGRADE:
    dlk_zk_query_run(st, op, dlk_zk_guard_start);
    break;
  case DLK_OP_CHANGE:
    dlk_zk_query_run(st, op, dlk_zk_change_start);
    break;
  case DLK_OP_DETACH:
  case DLK_OP_ATTACH:
  case DLK_OP_PROLONG:
  case DLK_OP_LISTEN:
    dlk_zk_done(st, op, DLK_UNSUPPORTED);
    break;
  }
}

void dlk_session_cancel(void *store, struct dlk_op *op) {
  struct dlk_zk_op_data *data = op->data;
  if (data->query)
    dlk_zk_query_cancel(data->query);
  else if (data->node)
    dlk_zk_contender_cancel(store, op, data->node);
}

void dlk_session_stop(void *store) {
  struct dlk_zk_store *st = store;
  dlk_zk_rests_end(st);
  dlk_zk_sessions_stop(&st->sessions);
}
