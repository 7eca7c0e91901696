/* getaddrinfo in a thread of its own, which is left to itself when its answer
 * comes too late.
 *
 * libuv's uv_getaddrinfo does the same in its pool, but what began there cannot
 * be taken back: the loop cannot be closed before it ends, and libuv joins the
 * pool when the process exits. With a resolver that hangs, a reloaded worker of
 * nginx stayed for half a minute after all its work was done.
 *
 * A look-up has two sides, and the job between them a reference of each. Under
 * the job's lock the thread says that it is done and wakes the loop, if anybody
 * is there to be told; likewise the loop's side says that it is not there any
 * more. So the wakeup is not used after its close began, and whoever is last
 * frees the answer. The thread touches nothing but the job: it may outlive the
 * loop, the store and the Lua state (the library itself stays, being linked
 * with nodelete).
 *
 * Threads that hang are few: at MOST of them the next look-up fails at once,
 * and begins to work again when one of them ends. */
#include "store/redis/conn/resolve.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/native.h"

#define MOST 16

static atomic_int under_way;

struct job {
  atomic_int refs;
  pthread_mutex_t lock;
  uv_async_t *wakeup; /* under lock; NULL: nobody wants to know */
  bool done;          /* under lock; then the rest does not change */
  int status;
  struct addrinfo *found;
  char *host, port[8];
};

struct dlk_redis_lookup {
  uv_async_t wakeup; /* first: a handle's address is that of its look-up */
  struct job *job;
  dlk_redis_found *found;
  void (*gone)(void *arg);
  void *arg;
};

static void unref(struct job *j) {
  if (atomic_fetch_sub(&j->refs, 1) > 1)
    return;
  if (j->found)
    freeaddrinfo(j->found);
  pthread_mutex_destroy(&j->lock);
  free(j->host);
  free(j);
}

/* ---- the thread ---- */

static void *look_up(void *arg) {
  struct job *j = arg;
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                           .ai_flags = AI_ADDRCONFIG};
  struct addrinfo *found = NULL;
  int status = getaddrinfo(j->host, j->port, &hints, &found);
  pthread_mutex_lock(&j->lock);
  j->status = status;
  j->found = status == 0 ? found : NULL;
  j->done = true;
  if (j->wakeup)
    (void)uv_async_send(j->wakeup);
  pthread_mutex_unlock(&j->lock);
  unref(j);
  atomic_fetch_sub(&under_way, 1);
  return NULL;
}

/* ---- the loop's side ---- */

static struct job *new_job(const char *host, const char *port) {
  struct job *j = calloc(1, sizeof *j);
  char *name = strdup(host);
  if (!j || !name || strlen(port) >= sizeof j->port ||
      pthread_mutex_init(&j->lock, NULL) != 0) {
    free(name);
    free(j);
    return NULL;
  }
  atomic_init(&j->refs, 1);
  j->host = name;
  memcpy(j->port, port, strlen(port) + 1);
  return j;
}

static void wakeup_closed(uv_handle_t *handle) {
  struct dlk_redis_lookup *l = (struct dlk_redis_lookup *)(void *)handle;
  void (*gone)(void *) = l->gone;
  void *arg = l->arg;
  free(l);
  gone(arg);
}

void dlk_redis_lookup_end(struct dlk_redis_lookup *l) {
  struct job *j = l->job;
  if (!j)
    return; /* ended already */
  l->job = NULL;
  pthread_mutex_lock(&j->lock);
  j->wakeup = NULL;
  pthread_mutex_unlock(&j->lock);
  unref(j);
  uv_close((uv_handle_t *)&l->wakeup, wakeup_closed);
}

static void woken(uv_async_t *wakeup) {
  struct dlk_redis_lookup *l = (struct dlk_redis_lookup *)(void *)wakeup;
  struct job *j = l->job;
  if (!j)
    return;
  pthread_mutex_lock(&j->lock);
  bool done = j->done;
  struct addrinfo *found = j->found;
  if (done)
    j->found = NULL; /* the caller's */
  pthread_mutex_unlock(&j->lock);
  if (!done)
    return;
  int status = j->status;
  dlk_redis_lookup_end(l);
  l->found(l->arg, status, found);
}

static int start_job(struct job *j) {
  if (atomic_fetch_add(&under_way, 1) >= MOST) {
    atomic_fetch_sub(&under_way, 1);
    return EAGAIN;
  }
  atomic_fetch_add(&j->refs, 1); /* the thread's */
  int e = dlk_native_start(NULL, 0, look_up, j);
  if (e != 0) {
    atomic_fetch_sub(&under_way, 1);
    unref(j);
  }
  return e;
}

/* The thread may be done before there is a wakeup. */
static void set_wakeup(struct dlk_redis_lookup *l) {
  struct job *j = l->job;
  pthread_mutex_lock(&j->lock);
  j->wakeup = &l->wakeup;
  if (j->done)
    (void)uv_async_send(j->wakeup);
  pthread_mutex_unlock(&j->lock);
}

int dlk_redis_lookup_start(struct uv_loop_s *loop, const char *host,
                           const char *port, dlk_redis_found *found,
                           void (*gone)(void *arg), void *arg,
                           struct dlk_redis_lookup **out) {
  struct dlk_redis_lookup *l = calloc(1, sizeof *l);
  struct job *j = l ? new_job(host, port) : NULL;
  int e = j ? start_job(j) : ENOMEM;
  if (e == 0)
    e = -uv_async_init(loop, &l->wakeup, woken);
  if (e != 0) {
    if (j)
      unref(j);
    free(l);
    return e;
  }
  l->job = j;
  l->found = found;
  l->gone = gone;
  l->arg = arg;
  set_wakeup(l);
  *out = l;
  return 0;
}
