/* getaddrinfo in a thread of its own, which is left to itself when its answer
 * comes too late.
 *
 * libuv's uv_getaddrinfo does the same in its pool, but what began there cannot
 * be taken back: the loop cannot be closed before it ends, and libuv joins the
 * pool when the process exits. With a resolver that hangs, a reloaded worker of
 * nginx stayed for half a minute after all its work was done.
 *
 * A name that is being asked for is not asked for again: later look-ups, of any
 * loop, listen as well. A resolver may need longer than an attempt to connect
 * has (its first server is dead, and it waits five seconds before it asks the
 * second one). So an answer without a listener is kept for the next look-up:
 * else each attempt would begin anew, and none ever connect.
 *
 *   ASKING -> (gone)    the answer came, and each listener has a copy
 *   ASKING -> KEPT      the answer came, and nobody listened
 *   KEPT   -> (gone)    a look-up took it, or KEEP is over
 *
 * All questions of the process lie under one lock, which is held for moments
 * only. A thread touches nothing but its question and the wakeups of the
 * listeners; these leave, under the lock, before their wakeup is closed. So a
 * thread may outlive the loop, the store and the Lua state (the library itself
 * stays, being linked with nodelete). A fork's child has no such thread, so it
 * begins without questions.
 *
 * Threads that hang are few: at MOST of them the next question fails at once,
 * and begins to work again when one of them ends. */
#include "net/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/clock.h"
#include "core/list.h"
#include "core/native.h"

#define MOST 16
#define KEEP (10 * DLK_SEC)

struct answer {
  int status; /* getaddrinfo's */
  struct dlk_net_addresses found;
};

struct question {
  struct dlk_list entry;     /* in questions */
  struct dlk_list listeners; /* look-ups */
  int64_t kept_at;           /* 0: ASKING, its thread will free it */
  struct answer answer;      /* KEPT */
  char port[8], host[];
};

struct dlk_net_lookup {
  uv_async_t wakeup;     /* first: a handle's address is that of its look-up */
  struct dlk_list entry; /* among the listeners, until it is told */
  bool told, ended;      /* told: under lock */
  struct answer answer;
  dlk_net_found *found;
  void (*gone)(void *arg);
  void *arg;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dlk_list questions = {&questions, &questions};
static unsigned under_way;

/* ---- under the lock ---- */

static void drop(struct question *q) {
  dlk_list_remove(&q->entry);
  free(q);
}

/* The question about that name; those that were kept too long go. */
static struct question *find(const char *host, const char *port) {
  struct question *found = NULL;
  for (struct dlk_list *at = questions.next, *next; at != &questions;
       at = next) {
    struct question *q = DLK_CONTAINER(at, struct question, entry);
    next = at->next;
    if (q->kept_at && dlk_clock_now() - q->kept_at >= KEEP)
      drop(q);
    else if (strcmp(q->host, host) == 0 && strcmp(q->port, port) == 0)
      found = q;
  }
  return found;
}

static void tell(struct dlk_net_lookup *l, const struct answer *a) {
  dlk_list_remove(&l->entry);
  l->answer = *a;
  l->told = true;
  (void)uv_async_send(&l->wakeup);
}

/* ---- the thread ---- */

static void *look_up(void *arg) {
  struct question *q = arg;
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
  struct answer a = {0};
  a.status = getaddrinfo(q->host, q->port, &hints, &list);
  if (a.status == 0) {
    dlk_net_addresses_copy(&a.found, list);
    freeaddrinfo(list);
  }
  pthread_mutex_lock(&lock);
  under_way--;
  bool heard = !dlk_list_empty(&q->listeners);
  while (!dlk_list_empty(&q->listeners))
    tell(DLK_CONTAINER(q->listeners.next, struct dlk_net_lookup, entry), &a);
  q->answer = a;
  q->kept_at = dlk_clock_now();
  if (heard)
    drop(q);
  pthread_mutex_unlock(&lock);
  return NULL;
}

/* NULL and *error: an errno. */
static struct question *ask(const char *host, const char *port, int *error) {
  size_t len = strlen(host) + 1;
  struct question *q = calloc(1, sizeof *q + len);
  *error = q ? EAGAIN : ENOMEM;
  if (!q || under_way == MOST || strlen(port) >= sizeof q->port) {
    free(q);
    return NULL;
  }
  dlk_list_init(&q->listeners);
  memcpy(q->host, host, len);
  memcpy(q->port, port, strlen(port) + 1);
  *error = dlk_native_start(NULL, 0, look_up, q); /* it waits for the lock */
  if (*error != 0) {
    free(q);
    return NULL;
  }
  dlk_list_append(&questions, &q->entry);
  under_way++;
  return q;
}

/* ---- forks ---- */

static void before_fork(void) {
  pthread_mutex_lock(&lock);
}

static void in_parent(void) {
  pthread_mutex_unlock(&lock);
}

/* The listeners are the parent's loops'. */
static void in_child(void) {
  while (!dlk_list_empty(&questions)) {
    struct question *q = DLK_CONTAINER(questions.next, struct question, entry);
    while (!dlk_list_empty(&q->listeners))
      dlk_list_remove(q->listeners.next);
    drop(q);
  }
  under_way = 0;
  pthread_mutex_unlock(&lock);
}

static void watch_forks(void) {
  (void)pthread_atfork(before_fork, in_parent, in_child);
}

/* ---- the loop's side ---- */

static void wakeup_closed(uv_handle_t *handle) {
  struct dlk_net_lookup *l = (struct dlk_net_lookup *)(void *)handle;
  void (*gone)(void *) = l->gone;
  void *arg = l->arg;
  free(l);
  gone(arg);
}

void dlk_net_lookup_end(struct dlk_net_lookup *l) {
  if (l->ended)
    return;
  l->ended = true;
  pthread_mutex_lock(&lock);
  dlk_list_remove(&l->entry);
  pthread_mutex_unlock(&lock);
  uv_close((uv_handle_t *)&l->wakeup, wakeup_closed);
}

static void woken(uv_async_t *wakeup) {
  struct dlk_net_lookup *l = (struct dlk_net_lookup *)(void *)wakeup;
  pthread_mutex_lock(&lock);
  bool told = l->told;
  pthread_mutex_unlock(&lock);
  if (l->ended || !told)
    return;
  dlk_net_lookup_end(l);
  l->found(l->arg, l->answer.status, &l->answer.found);
}

/* 0, or an errno, and nothing is left in the loop: what was asked is kept. */
static int listen_to(struct dlk_net_lookup *l, struct uv_loop_s *loop,
                     const char *host, const char *port) {
  int e = 0;
  struct question *q = find(host, port);
  if (!q)
    q = ask(host, port, &e);
  if (q)
    e = -uv_async_init(loop, &l->wakeup, woken);
  if (e != 0)
    return e;
  dlk_list_append(&q->listeners, &l->entry);
  if (q->kept_at) {
    tell(l, &q->answer);
    drop(q);
  }
  return 0;
}

int dlk_net_lookup_start(struct uv_loop_s *loop, const char *host,
                         const char *port, dlk_net_found *found,
                         void (*gone)(void *arg), void *arg,
                         struct dlk_net_lookup **out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  struct dlk_net_lookup *l = calloc(1, sizeof *l);
  if (!l)
    return ENOMEM;
  dlk_list_init(&l->entry);
  l->found = found;
  l->gone = gone;
  l->arg = arg;
  pthread_mutex_lock(&lock);
  int e = listen_to(l, loop, host, port);
  pthread_mutex_unlock(&lock);
  if (e != 0)
    free(l);
  else
    *out = l;
  return e;
}
