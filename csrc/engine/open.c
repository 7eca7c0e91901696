/* An engine's birth, first use and end.
 *
 * Opening does no I/O and starts no thread, so that it is safe in a master
 * process; the first request initialises the loop, names us and starts the
 * keeper. A stamp taken then, compared with one that every fork changes in
 * the child, tells a forked child from the process the threads live in. */
#include "engine/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A loop's poll, its event, its pipe for signals and that of all loops, and
 * the keeper's event. */
#define DESCRIPTORS 7

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

static bool init_sync(struct dlk_engine *e) {
  pthread_condattr_t attr;
  if (pthread_mutex_init(&e->lock, NULL) != 0)
    return false;
  if (pthread_mutex_init(&e->line_lock, NULL) != 0) {
    pthread_mutex_destroy(&e->lock);
    return false;
  }
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  int rc = pthread_cond_init(&e->freed, &attr);
  pthread_condattr_destroy(&attr);
  if (rc != 0) {
    pthread_mutex_destroy(&e->line_lock);
    pthread_mutex_destroy(&e->lock);
  }
  return rc == 0;
}

static void init_fields(struct dlk_engine *e) {
  dlk_host_init(&e->host);
  atomic_init(&e->refs, 1);
  atomic_init(&e->horizon, DLK_FOREVER);
  dlk_list_init(&e->ops);
  dlk_list_init(&e->holds);
  dlk_list_init(&e->adopted);
  e->tick_at = e->slice_end = DLK_FOREVER;
  atomic_init(&e->due, DLK_FOREVER);
  atomic_init(&e->watch_fd, -1);
  e->keeper_fd = -1;
  dlk_notify_init(e);
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
  if (used && !(atomic_load(&e->joined) && atomic_load(&e->stopped)))
    return;
  if (e->store)
    e->type->destroy(e->store);
  for (struct dlk_news *n = e->news_first; n;) {
    struct dlk_news *next = n->next;
    free(n);
    n = next;
  }
  free(e->conf_memory);
  free(e->free_numbers.list);
  dlk_notify_close_bell(e);
  dlk_line_hang_up(e);
  dlk_local_clear(e);
  dlk_pool_clear(&e->spare_tickets);
  dlk_pool_clear(&e->spare_holds);
  pthread_cond_destroy(&e->freed);
  pthread_mutex_destroy(&e->line_lock);
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
  return atomic_load(&e->closed);
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

/* Nothing to do: it ends the sleep, and whoever wakes looks around. */
static void on_kick(uv_async_t *kick) {
  (void)kick;
}

/* 0, or an errno: whether as many descriptors are to be had as a loop and the
 * keeper take. libuv makes a pipe for all its loops with the first one, and
 * ends the process if it cannot; so that is not left to chance. (In a program
 * that runs out of them in several threads at one time it still is.) */
static int find_descriptors(void) {
  int fds[DESCRIPTORS], n = 0, error = 0;
  while (n < DESCRIPTORS && error == 0) {
    fds[n] = eventfd(0, EFD_CLOEXEC);
    if (fds[n] < 0)
      error = errno;
    else
      n++;
  }
  while (n > 0)
    close(fds[--n]);
  return error;
}

/* 0, or an errno: sees to it that none of our descriptors is 0, 1 or 2. A
 * program that was started with these closed would print into our connections
 * and read from them, and libuv ends a process that gives such a one to it to
 * close. All descriptors of a store are opened after this, and those three
 * stay open, so one place is enough. They cannot be what the program expects
 * (reading 0, writing the others), so that such a program gets EBADF as before.
 * Another thread that fills the same gaps, or uses them, is not disturbed. */
static int fill_gaps(void) {
  for (int fd = 0; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) >= 0)
      continue;
    /* Programs that this one starts have them too. */
    int got = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (got < 0)
      return errno;
    if (got > STDERR_FILENO)
      close(got);
  }
  return 0;
}

/* 0, or an errno. */
static int init_loop(struct dlk_engine *e) {
  int error = fill_gaps();
  if (error == 0)
    error = find_descriptors();
  if (error == 0)
    error = -uv_loop_init(&e->loop);
  if (error != 0)
    return error;
  e->loop.data = e;
  error = -uv_async_init(&e->loop, &e->kick, on_kick);
  if (error != 0)
    uv_loop_close(&e->loop);
  else
    uv_timer_init(&e->loop, &e->tick);
  return error;
}

static void undo_loop(struct dlk_engine *e) {
  uv_close((uv_handle_t *)&e->kick, NULL);
  uv_close((uv_handle_t *)&e->tick, NULL);
  uv_run(&e->loop, UV_RUN_DEFAULT);
  uv_loop_close(&e->loop);
}

static bool first_use(struct dlk_engine *e, struct dlk_error *err) {
  if (atomic_load(&e->fork_stamp) != 0)
    return true;
  /* What is left was drawn before a fork, perhaps: the other children have it
   * too, and two workers of nginx would do things under one token. */
  e->entropy_left = 0;
  name_ourselves(e);
  int error = init_loop(e);
  if (error != 0) {
    char why[DLK_REASON_MAX];
    dlk_error_set(err, DLK_UNAVAILABLE, "no event loop for '%s': %s", e->shown,
                  dlk_reason(why, error));
    return false;
  }
  if (!dlk_keeper_start(e, err)) {
    undo_loop(e);
    return false;
  }
  atomic_store(&e->fork_stamp, dlk_fork_stamp());
  return true;
}

/* ---- requests ---- */

static bool say_closed(const struct dlk_engine *e, struct dlk_error *err) {
  dlk_error_set(err, DLK_CLOSED, "the store '%s' was closed", e->shown);
  return false;
}

bool dlk_engine_is_open(const struct dlk_engine *e, struct dlk_error *err) {
  return !atomic_load(&e->closing) || say_closed(e, err);
}

bool dlk_engine_is_ours(const struct dlk_engine *e, struct dlk_error *err) {
  if (!dlk_engine_forked(e))
    return true;
  dlk_error_set(err, DLK_FORKED,
                "'%s' was used before a fork; open it again in the child",
                e->shown);
  return false;
}

static bool accepts(struct dlk_engine *e, const struct dlk_request *r,
                    struct dlk_error *err) {
  if (!dlk_engine_is_ours(e, err))
    return false;
  return r->task == DLK_TASK_CLOSE || dlk_engine_is_open(e, err);
}

static bool enqueue(struct dlk_engine *e, struct dlk_ticket *t, bool wake,
                    struct dlk_error *err) {
  if (atomic_fetch_add(&e->inbox_tickets, 1) >= DLK_INBOX_MAX) {
    dlk_error_set(err, DLK_UNAVAILABLE,
                  "more than %d requests are queued for '%s'", DLK_INBOX_MAX,
                  e->shown);
    return false;
  }
  /* Refused: another thread closed the store since we looked. */
  return dlk_driver_post(e, &t->start, wake) || say_closed(e, err);
}

struct dlk_ticket *dlk_engine_submit(struct dlk_engine *e,
                                     const struct dlk_request *r, bool wake,
                                     struct dlk_error *err) {
  if (!accepts(e, r, err) || !first_use(e, err))
    return NULL;
  struct dlk_ticket *t = dlk_ticket_new(e, r);
  if (!t) {
    dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
    return NULL;
  }
  if (!wake && dlk_driver_start(t))
    return t;
  if (enqueue(e, t, wake, err))
    return t;
  dlk_ticket_drop_ref(t);
  dlk_ticket_drop_ref(t);
  return NULL;
}
