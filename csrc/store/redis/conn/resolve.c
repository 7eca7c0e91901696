/* getaddrinfo in a thread of its own, which is left to itself when its answer
 * comes too late.
 *
 * libuv's uv_getaddrinfo does the same in its pool, but what began there cannot
 * be taken back: the loop cannot be closed before it ends, and libuv joins the
 * pool when the process exits. With a resolver that hangs, a reloaded worker of
 * nginx stayed for half a minute after all its work was done.
 *
 * A name is asked for once, by whoever wants to know first; who comes later,
 * from whatever loop, listens as well. A resolver may need longer than an
 * attempt to connect has (its first server is dead, and it waits five seconds
 * before it asks the second one): so an answer that finds no listener is kept
 * for the next one. Else each attempt would begin anew, and none ever connect.
 * A question that was open for so long may never be answered, though it would
 * be if it were asked again: so it is, once.
 *
 * All questions of the process lie under one lock, which is held for moments
 * only. A thread touches nothing but its question, an answer and the wakeups of
 * those who listen; these leave, under the lock, before their wakeup is closed.
 * So it may outlive the loop, the store and the Lua state (the library itself
 * stays, being linked with nodelete). A fork's child has no such thread,
 * so it asks for itself.
 *
 * Threads that hang are few: at MOST of them the next question fails at once,
 * and begins to work again when one of them ends. */
#include "store/redis/conn/resolve.h"

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
#define ASK_AGAIN (5 * DLK_SEC)
#define MOST_OF_A_NAME 2
#define KEEP (10 * DLK_SEC)

struct dlk_redis_resolved {
  unsigned refs; /* under lock */
  int status;
  struct addrinfo *list;
};

struct question {
  struct dlk_list entry;     /* in questions */
  struct dlk_list listeners; /* who were not told yet */
  unsigned refs;             /* threads and look-ups */
  unsigned threads;
  int64_t asked_at, kept_at;
  struct dlk_redis_resolved *kept; /* NULL: somebody had it, or none came */
  char *host, port[8];
};

struct dlk_redis_lookup {
  uv_async_t wakeup; /* first: a handle's address is that of its look-up */
  struct question *question;
  struct dlk_list entry;
  struct dlk_redis_resolved *answer; /* under lock */
  dlk_redis_found *found;
  void (*gone)(void *arg);
  void *arg;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dlk_list questions = {&questions, &questions};
static unsigned under_way;

/* ---- under the lock ---- */

static void answer_unref(struct dlk_redis_resolved *a) {
  if (!a || --a->refs > 0)
    return;
  if (a->list)
    freeaddrinfo(a->list);
  free(a);
}

static void keep(struct question *q, struct dlk_redis_resolved *a) {
  answer_unref(q->kept);
  q->kept = a;
  q->kept_at = dlk_clock_now();
}

static bool stale(const struct question *q) {
  return dlk_clock_now() - q->kept_at >= KEEP;
}

static void question_free(struct question *q) {
  dlk_list_remove(&q->entry);
  answer_unref(q->kept);
  free(q->host);
  free(q);
}

/* Those that nobody asks and that have nothing to say any more. */
static void sweep(void) {
  for (struct dlk_list *at = questions.next, *next; at != &questions;
       at = next) {
    struct question *q = DLK_CONTAINER(at, struct question, entry);
    next = at->next;
    if (q->kept && stale(q))
      keep(q, NULL);
    if (q->refs == 0 && !q->kept)
      question_free(q);
  }
}

static struct question *question_of(const char *host, const char *port) {
  for (struct dlk_list *at = questions.next; at != &questions; at = at->next) {
    struct question *q = DLK_CONTAINER(at, struct question, entry);
    if (strcmp(q->host, host) == 0 && strcmp(q->port, port) == 0)
      return q;
  }
  struct question *q = calloc(1, sizeof *q);
  char *name = strdup(host);
  if (!q || !name || strlen(port) >= sizeof q->port) {
    free(name);
    free(q);
    return NULL;
  }
  dlk_list_init(&q->listeners);
  dlk_list_append(&questions, &q->entry);
  q->host = name;
  memcpy(q->port, port, strlen(port) + 1);
  return q;
}

static void tell(struct dlk_redis_lookup *l, struct dlk_redis_resolved *a) {
  l->answer = a;
  (void)uv_async_send(&l->wakeup);
}

/* ---- the thread ---- */

static void take_answer(struct question *q, struct dlk_redis_resolved *a) {
  bool heard = !dlk_list_empty(&q->listeners);
  while (!dlk_list_empty(&q->listeners)) {
    struct dlk_redis_lookup *l =
        DLK_CONTAINER(q->listeners.next, struct dlk_redis_lookup, entry);
    dlk_list_remove(&l->entry);
    a->refs++;
    tell(l, a);
  }
  if (heard)
    answer_unref(a);
  else
    keep(q, a);
}

static void *look_up(void *arg) {
  struct question *q = arg;
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  int status = getaddrinfo(q->host, q->port, &hints, &found);
  struct dlk_redis_resolved *a = calloc(1, sizeof *a);
  pthread_mutex_lock(&lock);
  if (a) {
    *a = (struct dlk_redis_resolved){
        .refs = 1, .status = status, .list = status == 0 ? found : NULL};
    take_answer(q, a);
  } else if (status == 0) {
    freeaddrinfo(found); /* who listens runs out of time */
  }
  q->threads--;
  q->refs--;
  under_way--;
  sweep();
  pthread_mutex_unlock(&lock);
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
  for (struct dlk_list *at = questions.next; at != &questions; at = at->next) {
    struct question *q = DLK_CONTAINER(at, struct question, entry);
    q->refs -= q->threads;
    q->threads = 0;
    while (!dlk_list_empty(&q->listeners)) /* they are the parent's loops' */
      dlk_list_remove(q->listeners.next);
  }
  under_way = 0;
  sweep();
  pthread_mutex_unlock(&lock);
}

static void watch_forks(void) {
  (void)pthread_atfork(before_fork, in_parent, in_child);
}

/* ---- the loop's side ---- */

static void leave(struct dlk_redis_lookup *l) {
  struct question *q = l->question;
  l->question = NULL;
  dlk_list_remove(&l->entry);
  q->refs--;
  if (l->answer && !q->kept)
    keep(q, l->answer); /* it came too late for this one */
  else
    answer_unref(l->answer);
  l->answer = NULL;
}

static void wakeup_closed(uv_handle_t *handle) {
  struct dlk_redis_lookup *l = (struct dlk_redis_lookup *)(void *)handle;
  void (*gone)(void *) = l->gone;
  void *arg = l->arg;
  free(l);
  gone(arg);
}

void dlk_redis_lookup_end(struct dlk_redis_lookup *l) {
  if (!l->question)
    return; /* ended already */
  pthread_mutex_lock(&lock);
  leave(l);
  pthread_mutex_unlock(&lock);
  uv_close((uv_handle_t *)&l->wakeup, wakeup_closed);
}

static void woken(uv_async_t *wakeup) {
  struct dlk_redis_lookup *l = (struct dlk_redis_lookup *)(void *)wakeup;
  if (!l->question)
    return;
  pthread_mutex_lock(&lock);
  struct dlk_redis_resolved *a = l->answer;
  l->answer = NULL;
  pthread_mutex_unlock(&lock);
  if (!a)
    return;
  dlk_redis_lookup_end(l);
  l->found(l->arg, a->status, a);
}

static int ask(struct question *q) {
  bool asked = q->threads > 0;
  if (asked && (q->threads == MOST_OF_A_NAME ||
                dlk_clock_now() - q->asked_at < ASK_AGAIN))
    return 0;
  int e = EAGAIN;
  if (under_way < MOST)
    e = dlk_native_start(NULL, 0, look_up, q); /* it waits for the lock */
  if (e != 0)
    return asked ? 0 : e;
  q->asked_at = dlk_clock_now();
  q->threads++;
  q->refs++;
  under_way++;
  return 0;
}

/* Nothing is left in the loop if it fails. */
static int listen_to(struct dlk_redis_lookup *l, struct uv_loop_s *loop,
                     const char *host, const char *port) {
  sweep();
  struct question *q = question_of(host, port);
  if (!q)
    return ENOMEM;
  int e = q->kept ? 0 : ask(q);
  if (e == 0)
    e = -uv_async_init(loop, &l->wakeup, woken);
  if (e != 0)
    return e;
  q->refs++;
  l->question = q;
  if (q->kept)
    tell(l, q->kept);
  else
    dlk_list_append(&q->listeners, &l->entry);
  q->kept = NULL;
  return 0;
}

int dlk_redis_lookup_start(struct uv_loop_s *loop, const char *host,
                           const char *port, dlk_redis_found *found,
                           void (*gone)(void *arg), void *arg,
                           struct dlk_redis_lookup **out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  struct dlk_redis_lookup *l = calloc(1, sizeof *l);
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

const struct addrinfo *
dlk_redis_resolved_list(const struct dlk_redis_resolved *a) {
  return a->list;
}

void dlk_redis_resolved_free(struct dlk_redis_resolved *a) {
  if (!a)
    return;
  pthread_mutex_lock(&lock);
  answer_unref(a);
  pthread_mutex_unlock(&lock);
}
