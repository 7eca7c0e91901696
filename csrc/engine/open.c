/* An engine's birth, first use and end. Opening does no I/O and starts no
 * thread, so a master process may fork. The first request does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/hold/renewal.h"
#include "engine/in_use.h"
#include "engine/local/local_queue.h"
#include "engine/ticket/close.h"
#include "engine/ticket/request.h"
#include "loop/life.h"

#define MANY 16 /* so many open stores are likely a mistake */
/* For a busy worker of nginx, and for leases that wait for a collector. */
#define SPARE_TICKETS 128
#define SPARE_HOLDS 1024

struct whole {
  struct dlk_engine engine; /* first */
  struct dlk_local_queues local;
  struct dlk_close close;
};

/* ---- birth ---- */

static const struct dlk_loop_calls loop_calls = {.run_batch = dlk_holds_run,
                                                 .over = dlk_close_by_thread};

/* A renewal thread that goes on alone has a reference, so none is left. */
static void free_engine(struct dlk_engine *e) {
  if (atomic_load(&e->fork_stamp) != 0 && !dlk_close_is_over(e->close))
    return;
  if (e->store)
    e->type->destroy(e->store);
  if (e->conf_memory)
    explicit_bzero(e->conf_memory, e->conf_size);
  free(e->conf_memory);
  dlk_secret_free(e->secret);
  dlk_socket_hang_up(&e->socket);
  dlk_local_clear(e->local);
  dlk_pool_clear(&e->spare_tickets);
  dlk_pool_clear(&e->held.spare);
  dlk_events_destroy(&e->events);
  free(e->completions.free.list);
  dlk_loop_destroy(&e->loop);
  free(e);
}

static struct dlk_engine *new_engine(const struct dlk_store_type *type) {
  struct whole *whole = calloc(1, sizeof *whole);
  if (!whole)
    return NULL;
  struct dlk_engine *e = &whole->engine;
  bool loop = dlk_loop_init(&e->loop, &loop_calls);
  if (!loop || !dlk_events_init(&e->events)) {
    if (loop)
      dlk_loop_destroy(&e->loop);
    free(whole);
    return NULL;
  }
  e->type = type;
  e->local = &whole->local;
  e->close = &whole->close;
  e->free = free_engine;
  dlk_host_init(&e->host);
  atomic_init(&e->refs, 1);
  dlk_socket_init(&e->socket, &e->loop);
  dlk_list_init(&e->in_use);
  dlk_list_init(&e->work.ops);
  dlk_list_init(&e->held.list);
  atomic_init(&e->held.horizon, DLK_FOREVER);
  e->calls = &dlk_request_calls;
  dlk_list_init(&e->local->all);
  dlk_close_init(e->close, e);
  dlk_pool_init(&e->spare_tickets, sizeof(struct dlk_ticket) + type->op_size,
                SPARE_TICKETS);
  dlk_pool_init(&e->held.spare, sizeof(struct dlk_hold) + type->lease_size,
                SPARE_HOLDS);
  return e;
}

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

/* One block holds the copy, so its secrets are wiped in one go. */
static bool copy_conf(struct dlk_engine *e, const struct dlk_conf *from,
                      const char *name, struct dlk_conf *to) {
  size_t size = from->host_count * sizeof *from->hosts;
  size += size_of(from->shown) + size_of(from->scheme) + size_of(from->path);
  size += size_of(from->username) + size_of(from->password);
  size += size_of(from->prefix) + size_of(name);
  for (size_t i = 0; i < from->host_count; i++)
    size += size_of(from->hosts[i].host);
  const struct dlk_options *o = &from->options;
  size += o->count * sizeof *o->list;
  for (size_t i = 0; i < o->count; i++)
    size += size_of(o->list[i].name) + size_of(o->list[i].key) +
            size_of(o->list[i].text);
  char *memory = malloc(size ? size : 1);
  if (!memory)
    return false;
  struct dlk_option *options = (struct dlk_option *)(void *)memory;
  struct dlk_addr *hosts = (void *)(options + from->options.count);
  char *at = (char *)(hosts + from->host_count);
  *to = *from;
  for (size_t i = 0; i < o->count; i++) {
    options[i] = o->list[i];
    options[i].name = put(&at, o->list[i].name);
    options[i].key = put(&at, o->list[i].key);
    options[i].text = put(&at, o->list[i].text);
  }
  to->options.list = options;
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
  e->given_name = put(&at, name);
  e->conf_memory = memory;
  e->conf_size = size;
  return true;
}

static bool create_store(struct dlk_engine *e, const struct dlk_conf *conf,
                         const char *name, struct dlk_error *err) {
  struct dlk_conf used = *conf, copy;
  used.prefix = e->type->prefix(conf->prefix);
  if (!copy_conf(e, &used, name, &copy)) {
    dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
    return false;
  }
  e->shown = copy.shown;
  e->prefix = copy.prefix;
  e->io_timeout = copy.io_timeout;
  e->quiet = copy.quiet;
  e->behind_tls = dlk_option_text(&copy.options, "tls_library") != NULL;
  if (e->type->create(&e->host, &copy, &e->store, err) == DLK_OK)
    return true;
  e->store = NULL;
  return false;
}

struct dlk_engine *dlk_engine_new(const struct dlk_store_type *type,
                                  const struct dlk_conf *conf, const char *name,
                                  struct dlk_error *err) {
  struct dlk_engine *e = new_engine(type);
  if (!e) {
    dlk_secret_free(conf->secret);
    dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
    return NULL;
  }
  e->secret = conf->secret;
  if (create_store(e, conf, name, err))
    return e;
  dlk_engine_unref(e);
  return NULL;
}

bool dlk_engine_asks(struct dlk_engine *e) {
  return e->secret && dlk_secret_ask(e->secret);
}

bool dlk_engine_password(struct dlk_engine *e, const char *password) {
  return !e->secret || dlk_secret_set(e->secret, password);
}

/* ---- first use ---- */

bool dlk_engine_first_use(struct dlk_engine *e, struct dlk_error *err) {
  if (atomic_load(&e->fork_stamp) != 0)
    return true;
  dlk_random_forget(&e->random);
  if (e->given_name) {
    snprintf(e->name, sizeof e->name, "%s", e->given_name);
  } else {
    char host[80];
    if (gethostname(host, sizeof host) != 0)
      memcpy(host, "localhost", 10);
    host[sizeof host - 1] = '\0';
    snprintf(e->name, sizeof e->name, "%s/%ld", host, (long)getpid());
  }
  if (!dlk_loop_open(&e->loop, e->shown, err)) {
    /* Open stores have most likely taken all descriptors or threads. */
    size_t n = dlk_in_use_count(), len = strlen(err->text);
    if (n > MANY)
      snprintf(err->text + len, sizeof err->text - len,
               "; %zu stores are open here; open one and keep it", n);
    return false;
  }
  atomic_store(&e->fork_stamp, dlk_fork_stamp());
  dlk_in_use_add(e);
  return true;
}
