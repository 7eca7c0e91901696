/* getaddrinfo in a thread of its own, which is left alone when its answer comes
 * too late. A look-up in libuv's pool cannot be taken back: the loop's close
 * and the process's exit would wait for a resolver that hangs.
 *
 * A question that was left is the next look-up's for the same name: else an
 * answer slower than each attempt to connect would never be heard.
 *
 * A thread touches its question, and under the lock the look-up that listens. A
 * look-up leaves under the lock before its wakeup is closed. So a thread may
 * outlive loop, store and Lua state (the library stays: nodelete). A fork's
 * child begins without questions.
 *
 * At MOST hanging threads the next question fails at once. */
#include "net/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/native.h"

#define MOST 16

struct question {
  struct dlk_net_lookup *listener; /* NULL: it was left */
  unsigned at;                     /* in asked */
  char port[8], host[];
};

struct dlk_net_lookup {
  uv_async_t wakeup;         /* first: a handle is its look-up */
  struct question *question; /* NULL: answered; under the lock */
  bool ended;
  int status;
  struct dlk_net_addresses addresses;
  dlk_net_found *found;
  void (*gone)(void *arg);
  void *arg;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct question *asked[MOST]; /* whose threads run */

static void *look_up(void *arg) {
  struct question *q = arg;
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
  struct dlk_net_addresses addresses = {0};
  int status = getaddrinfo(q->host, q->port, &hints, &list);
  if (status == 0) {
    dlk_net_addresses_copy(&addresses, list);
    freeaddrinfo(list);
  }
  pthread_mutex_lock(&lock);
  asked[q->at] = NULL;
  struct dlk_net_lookup *l = q->listener;
  if (l) {
    l->status = status;
    l->addresses = addresses;
    l->question = NULL;
    (void)uv_async_send(&l->wakeup);
  }
  pthread_mutex_unlock(&lock);
  free(q);
  return NULL;
}

/* ---- forks ---- */

static void before_fork(void) {
  pthread_mutex_lock(&lock);
}

static void in_parent(void) {
  pthread_mutex_unlock(&lock);
}

static void in_child(void) {
  memset(asked, 0, sizeof asked);
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
  if (l->question)
    l->question->listener = NULL;
  pthread_mutex_unlock(&lock);
  uv_close((uv_handle_t *)&l->wakeup, wakeup_closed);
}

static void woken(uv_async_t *wakeup) {
  struct dlk_net_lookup *l = (struct dlk_net_lookup *)(void *)wakeup;
  pthread_mutex_lock(&lock);
  bool answered = !l->question;
  pthread_mutex_unlock(&lock);
  if (l->ended || !answered)
    return;
  dlk_net_lookup_end(l);
  l->found(l->arg, l->status, &l->addresses);
}

int dlk_net_lookup_start(struct uv_loop_s *loop, const char *host,
                         const char *port, dlk_net_found *found,
                         void (*gone)(void *arg), void *arg,
                         struct dlk_net_lookup **out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  size_t len = strlen(host) + 1;
  struct dlk_net_lookup *l = calloc(1, sizeof *l);
  struct question *q = calloc(1, sizeof *q + len), *left = NULL;
  unsigned at = MOST;
  int e = ENOMEM;
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&lock); /* the thread waits for it */
  for (unsigned i = 0; i < MOST; i++) {
    if (!asked[i])
      at = i;
    else if (!asked[i]->listener && strcmp(asked[i]->host, host) == 0 &&
             strcmp(asked[i]->port, port) == 0)
      left = asked[i];
  }
  if (l && left) {
    e = 0;
  } else if (l && q) {
    memcpy(q->host, host, len);
    memcpy(q->port, port, strlen(port) + 1);
    q->at = at;
    e = at < MOST ? dlk_native_start(NULL, 0, look_up, q) : EAGAIN;
    if (e == 0)
      left = asked[at] = q;
  }
  if (e == 0)
    e = -uv_async_init(loop, &l->wakeup, woken);
  if (e == 0) {
    l->found = found;
    l->gone = gone;
    l->arg = arg;
    l->question = left;
    left->listener = l;
    *out = l;
  }
  pthread_mutex_unlock(&lock);
  if (e != 0)
    free(l);
  if (left != q)
    free(q);
  return e;
}
