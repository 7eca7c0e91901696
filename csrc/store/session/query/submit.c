/* Hands each operation to its file. The loop's owner runs everything. Folders
 * call only those before:
 *
 *   format/   names of nodes, their data
 *   driver.h  what the servers do
 *   life/     sessions.c: opening, replacing, ending
 *   recipe/   queue.c: the admission rule; acquire.c: the recipe
 *   query/    query.c: reading, or acting once */
#include "store/session/query/submit.h"

#include <stdlib.h>
#include <string.h>

#include "store/session/query/query.h"

const char *dlk_ss_prefix(const char *given) {
  return given ? given : "/dlock";
}

char *dlk_ss_base(const struct dlk_conf *conf) {
  bool root = !conf->path || strcmp(conf->path, "/") == 0;
  struct dlk_buf base = {0};
  dlk_buf_addf(&base, "%s%s", root ? "" : conf->path, conf->prefix);
  dlk_buf_add(&base, "", 1);
  if (base.failed)
    dlk_buf_free(&base);
  return base.data;
}

void dlk_ss_destroy(void *store) {
  struct dlk_ss_store *st = store;
  st->driver->free_client(st->sessions.client);
  free(st->base);
  dlk_map_clear(&st->by_guid);
  dlk_buf_free(&st->scratch);
  free(st);
}

void *dlk_ss_create(struct dlk_host *host, const struct dlk_conf *conf,
                    const struct dlk_ss_driver *driver, void *client,
                    const char *base, int64_t timeout) {
  struct dlk_ss_store *st = calloc(1, sizeof *st);
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
  st->sessions.hooks = &dlk_ss_recipe;
  st->sessions.conf = &st->conf;
  st->sessions.timeout = timeout;
  dlk_list_init(&st->sessions.all);
  dlk_list_init(&st->sessions.closing);
  dlk_list_init(&st->rests);
  return st;
}

/* Not at create: a fork may lie between. */
static void name_client(struct dlk_ss_store *st) {
  unsigned char random[DLK_SS_CLIENT / 2];
  uint32_t seed;
  if (st->client[0])
    return;
  st->host->random(st->host, random, sizeof random);
  st->host->random(st->host, &seed, sizeof seed);
  dlk_ss_hex(st->client, random, sizeof random);
  dlk_map_init(&st->by_guid, seed);
}

void dlk_ss_submit(void *store, struct dlk_op *op) {
  static dlk_ss_first *const queries[] = {
      [DLK_OP_PING] = dlk_ss_ping_start,
      [DLK_OP_LOCKED] = dlk_ss_locked_start,
      [DLK_OP_INSPECT] = dlk_ss_admin_start,
      [DLK_OP_BREAK] = dlk_ss_admin_start,
      [DLK_OP_REVOKE] = dlk_ss_admin_start,
      [DLK_OP_LIST] = dlk_ss_list_start,
      [DLK_OP_GUARD] = dlk_ss_guard_start,
      [DLK_OP_DOWNGRADE] = dlk_ss_guard_start,
      [DLK_OP_PUBLISH] = dlk_ss_guard_start,
      [DLK_OP_CHANGE] = dlk_ss_change_start,
      [DLK_OP_DETACH] = dlk_ss_portable_start,
      [DLK_OP_ATTACH] = dlk_ss_portable_start,
      [DLK_OP_PROLONG] = dlk_ss_portable_start,
  };
  struct dlk_ss_store *st = store;
  bool query = (size_t)op->kind < sizeof queries / sizeof *queries;
  name_client(st);
  if (op->kind == DLK_OP_ACQUIRE)
    dlk_ss_acquire(st, op);
  else if (op->kind == DLK_OP_RELEASE)
    dlk_ss_release(st, op);
  else if (op->kind == DLK_OP_EXTEND)
    dlk_ss_extend(st, op);
  else if (op->kind == DLK_OP_LIST && !dlk_ss_list_cursor_ok(op))
    dlk_ss_done(st, op, DLK_INVALID);
  else if (query && queries[op->kind])
    dlk_ss_query_run(st, op, queries[op->kind]);
  else
    dlk_ss_done(st, op, DLK_UNSUPPORTED);
}

void dlk_ss_cancel(void *store, struct dlk_op *op) {
  struct dlk_ss_op_data *data = op->data;
  if (data->query)
    dlk_ss_query_cancel(data->query);
  else if (data->node)
    dlk_ss_contender_cancel(store, op, data->node);
}

void dlk_ss_stop(void *store) {
  struct dlk_ss_store *st = store;
  dlk_ss_rests_end(st);
  dlk_ss_sessions_stop(&st->sessions);
}
