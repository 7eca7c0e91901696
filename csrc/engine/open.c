/* An engine's birth, first use and end.
 *
 * Opening does no I/O and starts no thread, so that it is safe in a master
 * process; the first request initialises the loop, names us and starts the
 * keeper. A stamp taken then, compared with one that every fork changes in
 * the child, tells a forked child from the process the threads live in. */
#include "engine/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* So many are kept free. */
#define SPARE_TICKETS 128
#define SPARE_HOLDS 1024

static atomic_uint stamp = 1;
static pthread_once_t stamp_once = PTHREAD_ONCE_INIT;

static void count_fork(void) {
  atomic_fetch_add(&stamp, 1);
}

static void watch_forks(void) {
  pthread_atfork(NULL, NULL, count_fork);
}

unsigned dlk_fork_stamp(void) {
  pthread_once(&stamp_once, watch_forks);
  return atomic_load(&stamp);
}

bool dlk_engine_forked(const struct dlk_engine *e) {
  unsigned mine = atomic_load(&e->fork_stamp);
  return mine != 0 && mine != atomic_load(&stamp);
}

/* ---- the copy of conf ---- */

static size_t size_of(const char *s) {
  return s ? strlen(s) + 1 : 0;
}

static const char *put(char **at, const char *s) {
  if (!s)
    return NULL;
  size_t n = strlen(s) + 1;
  char *to = *at;
  memcpy(to, s, n);
  *at += n;
  return to;
}

/* One block for everything, so that the secret in it is wiped in one go. */
static void *copy_conf(const struct dlk_conf *from, const char *name,
                       struct dlk_conf *to, const char **name_out,
                       size_t *size_out) {
  size_t size = from->host_count * sizeof *from->hosts;
  size += size_of(from->shown) + size_of(from->scheme) + size_of(from->path);
  size += size_of(from->username) + size_of(from->password);
  size += size_of(from->prefix) + size_of(name);
  for (size_t i = 0; i < from->host_count; i++)
    size += size_of(from->hosts[i].host);
  char *memory = malloc(size ? size : 1);
  if (!memory)
    return NULL;
  struct dlk_addr *hosts = (struct dlk_addr *)(void *)memory;
  char *at = memory + from->host_count * sizeof *hosts;
  *to = *from;
  to->hosts = hosts;
  for (size_t i = 0; i < from->host_count; i++) {
    hosts[i] = from->hosts[i];
    hosts[i].host = put(&at, from->hosts[i].host);
  }
  to->shown = put(&at, from->shown);
  to->scheme = put(&at, from->scheme);
  to->path = put(&at, from->path);
  to->username = put(&at, from->username);
  to->password = put(&at, from->password);
  to->prefix = put(&at, from->prefix);
  *name_out = put(&at, name);
  *size_out = size;
  return memory;
}

/* ---- birth ---- */

static const struct dlk_loop_calls loop_calls = {.run_batch = dlk_holds_run,
                                                 .over = dlk_close_by_thread};

static bool init_sync(struct dlk_engine *e) {
  if (pthread_mutex_init(&e->lock, NULL) != 0)
    return false;
  if (dlk_completions_init(&e->completions)) {
    if (dlk_loop_init(&e->loop, &loop_calls))
      return true;
    dlk_completions_destroy(&e->completions);
  }
  pthread_mutex_destroy(&e->lock);
  return false;
}

static void init_fields(struct dlk_engine *e) {
  dlk_host_init(&e->host);
  atomic_init(&e->refs, 1);
  atomic_init(&e->horizon, DLK_FOREVER);
  dlk_list_init(&e->ops);
  dlk_list_init(&e->holds);
  dlk_list_init(&e->adopted);
  dlk_socket_init(&e->socket, &e->loop);
  dlk_local_init(e);
  dlk_close_init(e);
}

/* Enough for the requests of a busy worker of nginx, and for leases that wait
 * for a collector. */
static void init_pools(struct dlk_engine *e) {
  size_t ticket = sizeof(struct dlk_ticket) + e->type->op_size;
  size_t hold = sizeof(struct dlk_hold) + e->type->lease_size;
  dlk_pool_init(&e->spare_tickets, ticket, SPARE_TICKETS);
  dlk_pool_init(&e->spare_holds, hold, SPARE_HOLDS);
}

struct dlk_engine *dlk_engine_new(const struct dlk_store_type *type,
                                  const struct dlk_conf *conf, const char *name,
                                  struct dlk_error *err) {
  struct dlk_engine *e = calloc(1, sizeof *e);
  struct dlk_conf copy;
  size_t size = 0;
  if (!e || !init_sync(e)) {
    free(e);
    dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
    return NULL;
  }
  init_fields(e);
  e->type = type;
  init_pools(e);
  e->conf_memory = copy_conf(conf, name, &copy, &e->given_name, &size);
  if (!e->conf_memory) {
    dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
  } else {
    e->shown = copy.shown;
    e->prefix = copy.prefix;
    e->io_timeout = copy.io_timeout;
    if (type->create(&e->host, &copy, &e->store, err) == DLK_OK)
      return e;
    explicit_bzero(e->conf_memory, size);
    e->store = NULL;
  }
  dlk_engine_unref(e);
  return NULL;
}

void dlk_engine_ref(struct dlk_engine *e) {
  atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
}

/* The last reference goes after the end (or before any use), so no thread is
 * left: a keeper that goes on alone has one. */
void dlk_engine_unref(struct dlk_engine *e) {
  if (!e || atomic_fetch_sub(&e->refs, 1) != 1)
    return;
  bool used = atomic_load(&e->fork_stamp) != 0;
  if (used && !(atomic_load(&e->loop.ended) && atomic_load(&e->stopped)))
    return;
  if (e->store)
    e->type->destroy(e->store);
  for (struct dlk_news *n = e->news_first; n;) {
    struct dlk_news *next = n->next;
    free(n);
    n = next;
  }
  free(e->conf_memory);
  dlk_socket_hang_up(&e->socket);
  dlk_local_clear(e);
  dlk_pool_clear(&e->spare_tickets);
  dlk_pool_clear(&e->spare_holds);
  dlk_loop_destroy(&e->loop);
  dlk_completions_destroy(&e->completions);
  pthread_mutex_destroy(&e->lock);
  free(e);
}

const char *dlk_engine_shown(const struct dlk_engine *e) {
  return e->shown;
}

bool dlk_engine_tag(const struct dlk_engine *e, const char *key, size_t len,
                    char out[DLK_TAG_MAX]) {
  if (!e->type->tag)
    return false;
  e->type->tag(e->prefix, key, len, out);
  return true;
}

bool dlk_engine_used(const struct dlk_engine *e) {
  return atomic_load(&e->fork_stamp) != 0 || atomic_load(&e->listens);
}

bool dlk_engine_joined(const struct dlk_engine *e) {
  return atomic_load(&e->completions.closed);
}

/* ---- first use ---- */

static void name_ourselves(struct dlk_engine *e) {
  if (e->given_name) {
    snprintf(e->name, sizeof e->name, "%s", e->given_name);
    return;
  }
  char host[80];
  if (gethostname(host, sizeof host) != 0)
    memcpy(host, "localhost", 10);
  host[sizeof host - 1] = '\0';
  snprintf(e->name, sizeof e->name, "%s/%ld", host, (long)getpid());
}

bool dlk_engine_first_use(struct dlk_engine *e, struct dlk_error *err) {
  if (atomic_load(&e->fork_stamp) != 0)
    return true;
  /* What is left was drawn before a fork, perhaps: the other children have it
   * too, and two workers of nginx would do things under one token. */
  e->entropy_left = 0;
  name_ourselves(e);
  if (!dlk_loop_open(&e->loop, e->shown, err))
    return false;
  atomic_store(&e->fork_stamp, dlk_fork_stamp());
  return true;
}

/* ---- requests ---- */

bool dlk_engine_say_closed(const struct dlk_engine *e, struct dlk_error *err) {
  dlk_error_set(err, DLK_CLOSED, "the store '%s' was closed", e->shown);
  return false;
}

bool dlk_engine_is_open(const struct dlk_engine *e, struct dlk_error *err) {
  return !atomic_load(&e->closing) || dlk_engine_say_closed(e, err);
}

bool dlk_engine_is_ours(const struct dlk_engine *e, struct dlk_error *err) {
  if (!dlk_engine_forked(e))
    return true;
  dlk_error_set(err, DLK_FORKED,
                "'%s' was used before a fork; open it again in the child",
                e->shown);
  return false;
}

bool dlk_engine_accepts(struct dlk_engine *e, const struct dlk_request *r,
                        struct dlk_error *err) {
  if (!dlk_engine_is_ours(e, err))
    return false;
  return r->task == DLK_TASK_CLOSE || dlk_engine_is_open(e, err);
}
