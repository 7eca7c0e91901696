/* A client library in a thread, because its calls block or want a poll of their
 * own: connecting, look-ups of names, TLS.
 *
 * Definitions. A worker has one thread and at most one connection. The loop
 * puts calls into `queue`; the thread takes them in order, and puts them with
 * their answers into `ready`. Notices and events go into `notes`. One post at a
 * time drains both.
 *
 * W1  The thread touches its worker only. The host, the store's secret and the
 *     lists are touched under the lock, and the first two not after `abandon`.
 * W2  A call is the thread's from taking it to `ready`; else the loop's.
 * W3  An attempt to connect lasts for connect_timeout at most, a request for
 *     io_timeout. A call that is not sent by its deadline is NOT_DONE. Only a
 *     look-up of a name may take longer; nobody waits for that (W5).
 * W4  After an UNSURE request the next connection first ends the old one. If it
 *     may not, calls are `loose` for two seconds.
 * W5  `gone` follows `end` when the thread is through, or `abandon`. A thread
 *     that hangs then keeps the worker's memory, and frees it.
 * W6  A call that was crossed by a lock or another transaction is undone; it is
 *     run again whole, three times in all, behind the calls that came since: a
 *     row that somebody keeps locked costs each of them one attempt.
 *
 * The server hangs up while the connection is idle: the thread hears that, so
 * the next call is not UNSURE. `end` crosses a call: it has until the deadline.
 * `abandon` crosses a post: `gone` follows the post's run. */
#include "store/sql/client/worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/native.h"
#include "store/sql/client/place.h"

#define STACK_SIZE ((size_t)1024 * 1024)
#define IDLE (60 * DLK_SEC)
#define BACKOFF (100 * DLK_MS) /* between attempts to connect */
#define BACKOFF_MAX (2 * DLK_SEC)
#define LOOSE (2 * DLK_SEC)

enum note_kind { NOTE_HEARD, NOTE_EVENT, NOTE_LISTENS };

struct note {
  struct dlk_list link;
  enum note_kind kind;
  const char *word; /* of an event; a constant */
  int hears;
  char text[];
};

struct dlk_sql_worker {
  pthread_mutex_t lock;
  atomic_int refs; /* the loop's, the thread's */
  int wake;        /* an eventfd */
  /* Constant. */
  const struct dlk_sql_dialect *dialect;
  const struct dlk_sql_events *events;
  void *user;
  struct dlk_sql_place place;
  /* [lock] */
  struct dlk_host *host; /* NULL once abandoned */
  struct dlk_list queue, ready, notes;
  bool posted, kept, closing, through;
  int64_t end; /* when closing */
  /* The thread's. */
  void *connection;
  struct dlk_sql_peer self, lost;
  int64_t used, tried, loose_until, pause;
  struct dlk_error trouble; /* of the last attempt to connect */
  /* The loop's. */
  struct dlk_post post;
  bool told_gone;
};

/* ---- any thread ---- */

static void free_notes(struct dlk_list *notes) {
  while (!dlk_list_empty(notes)) {
    struct dlk_list *l = notes->next;
    dlk_list_remove(l);
    free(DLK_CONTAINER(l, struct note, link));
  }
}

static void free_calls(struct dlk_list *calls) {
  while (!dlk_list_empty(calls))
    dlk_sql_call_free(DLK_CONTAINER(calls->next, struct dlk_sql_call, link));
}

static void unref(struct dlk_sql_worker *w) {
  if (atomic_fetch_sub(&w->refs, 1) != 1)
    return;
  free_calls(&w->queue);
  free_calls(&w->ready);
  free_notes(&w->notes);
  dlk_sql_place_free(&w->place);
  if (w->wake >= 0)
    close(w->wake);
  pthread_mutex_destroy(&w->lock);
  free(w);
}

/* [lock] */
static void kick(struct dlk_sql_worker *w) {
  if (w->posted || !w->host)
    return;
  w->posted = true;
  w->host->post(w->host, &w->post);
}

static void wake(struct dlk_sql_worker *w) {
  uint64_t one = 1;
  while (write(w->wake, &one, sizeof one) < 0 && errno == EINTR)
    continue;
}

/* ---- the thread ---- */

/* A notice without memory is dropped: a poll finds what it told. */
static void add_note(struct dlk_sql_worker *w, enum note_kind kind,
                     const char *word, int hears, const char *text) {
  size_t len = strlen(text) + 1;
  struct note *n = calloc(1, sizeof *n + len);
  if (!n)
    return;
  n->kind = kind;
  n->word = word;
  n->hears = hears;
  memcpy(n->text, text, len);
  pthread_mutex_lock(&w->lock);
  dlk_list_append(&w->notes, &n->link);
  kick(w);
  pthread_mutex_unlock(&w->lock);
}

void dlk_sql_heard(struct dlk_sql_worker *w, const char *text) {
  add_note(w, NOTE_HEARD, NULL, 0, text);
}

void dlk_sql_event(struct dlk_sql_worker *w, const char *kind,
                   const char *text) {
  add_note(w, NOTE_EVENT, kind, 0, text);
}

const char *dlk_sql_password(struct dlk_sql_worker *w, struct dlk_buf *out,
                             unsigned *turn) {
  const char *found = w->place.password;
  pthread_mutex_lock(&w->lock);
  if (w->place.secret)
    found = dlk_secret_read(w->place.secret, out, turn) ? out->data : NULL;
  pthread_mutex_unlock(&w->lock);
  return found;
}

void dlk_sql_password_refused(struct dlk_sql_worker *w, unsigned turn,
                              const char *text) {
  pthread_mutex_lock(&w->lock);
  bool asks = w->place.secret && dlk_secret_refused(w->place.secret, turn);
  pthread_mutex_unlock(&w->lock);
  if (asks)
    dlk_sql_event(w, "denied", text);
}

bool dlk_sql_wait(struct dlk_sql_worker *w, int fd, short events,
                  int64_t deadline) {
  for (;;) {
    pthread_mutex_lock(&w->lock);
    int64_t until = w->closing && w->end < deadline ? w->end : deadline;
    pthread_mutex_unlock(&w->lock);
    struct pollfd p[] = {{.fd = w->wake, .events = POLLIN},
                         {.fd = fd, .events = events}};
    if (dlk_clock_now() >= until)
      return false;
    int n = poll(p, fd < 0 ? 1 : 2, dlk_poll_ms(until));
    if (n > 0 && p[0].revents) {
      uint64_t count;
      (void)!read(w->wake, &count, sizeof count);
    }
    if (n > 0 && fd >= 0 && p[1].revents)
      return true;
  }
}

static void tell(struct dlk_sql_worker *w, const char *kind, const char *why) {
  char text[600];
  snprintf(text, sizeof text, "%.200s: %s", w->place.shown, why);
  dlk_sql_event(w, kind, text);
}

/* A connection that listened may live on at the server, which believes then
 * that we hear. */
static void hang_up(struct dlk_sql_worker *w) {
  if (!w->connection)
    return;
  bool lost = w->dialect->fd(w->connection) < 0;
  if (lost && w->place.listen)
    w->lost = w->self;
  else if (lost)
    tell(w, "disconnect", "the connection was lost");
  w->dialect->close(w->connection);
  w->connection = NULL;
  w->self = (struct dlk_sql_peer){0};
  if (w->place.listen)
    add_note(w, NOTE_LISTENS, NULL, -1, "");
}

static void end_lost(struct dlk_sql_worker *w, int64_t deadline) {
  if (w->lost.id == 0)
    return;
  bool ended = w->dialect->end(w, w->connection, &w->lost, deadline);
  if (w->dialect->fd(w->connection) < 0)
    return; /* the next connection ends it */
  if (!ended) {
    w->loose_until = dlk_clock_now() + LOOSE;
    tell(w, "loose",
         "a lost request could not be ended on the server; what it may leave "
         "there is taken back twice, or ends by its ttl");
  }
  w->lost = (struct dlk_sql_peer){0};
}

static bool connected(struct dlk_sql_worker *w) {
  int64_t now = dlk_clock_now();
  if (w->connection)
    return true;
  if (w->tried && now - w->tried < w->pause)
    return false;
  w->trouble = (struct dlk_error){0};
  int64_t deadline = dlk_time_add(now, w->place.connect_timeout);
  w->connection =
      w->dialect->open(w, &w->place, deadline, &w->self, &w->trouble);
  w->tried = dlk_clock_now();
  w->used = w->tried;
  if (!w->connection) {
    w->pause = w->pause < BACKOFF / 4 ? BACKOFF / 4 : 2 * w->pause;
    w->pause = w->pause < BACKOFF_MAX ? w->pause : BACKOFF_MAX;
    return false;
  }
  w->pause = 0;
  if (!w->place.listen)
    tell(w, "connect", "connected");
  end_lost(w, dlk_time_add(w->tried, w->place.io_timeout));
  int heard = 0;
  if (w->place.listen && w->dialect->fd(w->connection) >= 0)
    heard = w->dialect->listen(
        w, w->connection, dlk_time_add(dlk_clock_now(), w->place.io_timeout));
  if (w->dialect->fd(w->connection) < 0) {
    struct dlk_sql_peer lost = w->lost;
    dlk_error_set(&w->trouble, DLK_UNAVAILABLE, "'%s': the connection was lost",
                  w->place.shown);
    hang_up(w);
    w->lost = lost.id != 0 ? lost : w->lost;
    return false;
  }
  if (w->place.listen) {
    if (heard == 0)
      tell(w, "unheard",
           "no notice comes through (a proxy that pools transactions?); waits "
           "ask again and again instead: see the option listen");
    add_note(w, NOTE_LISTENS, NULL, heard, "");
  }
  return true;
}

/* The backoff is for the thread's own attempts. A call's tries at once, unless
 * one failed a moment ago. */
static void attempt(struct dlk_sql_worker *w, struct dlk_sql_call *call) {
  if (dlk_clock_now() >= call->deadline) {
    call->verdict = DLK_SQL_NOT_DONE;
    call->err = w->trouble;
    return;
  }
  if (w->pause > BACKOFF)
    w->pause = BACKOFF;
  if (!connected(w)) {
    call->err = w->trouble;
    call->verdict =
        w->trouble.code == DLK_UNAVAILABLE || w->trouble.code == DLK_OK
            ? DLK_SQL_NOT_DONE
            : DLK_SQL_REFUSED;
    return;
  }
  struct dlk_sql_peer self = w->self;
  call->room = call->rows = call->columns = 0;
  dlk_buf_clear(&call->text);
  call->err = (struct dlk_error){0};
  call->loose = dlk_clock_now() < w->loose_until;
  w->dialect->run(w, w->connection, call);
  w->used = dlk_clock_now();
  if (w->dialect->fd(w->connection) >= 0)
    return;
  if (call->begun && call->verdict == DLK_SQL_UNSURE)
    w->lost = self;
  hang_up(w);
}

/* W6. False: it is to be repeated. */
static bool serve(struct dlk_sql_worker *w, struct dlk_sql_call *call) {
  attempt(w, call);
  if (call->verdict != DLK_SQL_CROSSED)
    return true;
  int64_t now = dlk_clock_now();
  int64_t pause = (5 + (now >> 10) % 16) * DLK_MS;
  if (++call->crossed < DLK_SQL_ATTEMPTS && now + pause < call->deadline) {
    (void)dlk_sql_wait(w, -1, 0, now + pause);
    return false;
  }
  call->verdict = DLK_SQL_NOT_DONE;
  return true;
}

/* [lock], which it opens. Waits for a call, a notice, or the end of the idle
 * connection. */
static void rest(struct dlk_sql_worker *w) {
  bool wants = w->kept && !w->connection;
  bool kept = w->kept;
  pthread_mutex_unlock(&w->lock);
  int64_t now = dlk_clock_now(), until = DLK_FOREVER;
  int fd = w->connection ? w->dialect->fd(w->connection) : -1;
  if (wants && connected(w)) {
    pthread_mutex_lock(&w->lock);
    return;
  }
  if (wants)
    until = w->tried + w->pause;
  else if (w->connection && !kept)
    until = w->used + IDLE;
  struct pollfd p[] = {{.fd = w->wake, .events = POLLIN},
                       {.fd = fd, .events = POLLIN}};
  int n =
      poll(p, fd < 0 ? 1 : 2, until == DLK_FOREVER ? -1 : dlk_poll_ms(until));
  if (n > 0 && p[0].revents) {
    uint64_t count;
    (void)!read(w->wake, &count, sizeof count);
  }
  bool idle = !kept && w->connection && now >= w->used + IDLE;
  if (idle ||
      (n > 0 && fd >= 0 && p[1].revents && !w->dialect->hear(w, w->connection)))
    hang_up(w);
  pthread_mutex_lock(&w->lock);
}

static void *thread(void *arg) {
  struct dlk_sql_worker *w = arg;
  pthread_mutex_lock(&w->lock);
  for (;;) {
    if (w->closing && (dlk_list_empty(&w->queue) || dlk_clock_now() >= w->end))
      break;
    if (dlk_list_empty(&w->queue)) {
      rest(w);
      continue;
    }
    struct dlk_sql_call *call =
        DLK_CONTAINER(w->queue.next, struct dlk_sql_call, link);
    dlk_list_remove(&call->link);
    pthread_mutex_unlock(&w->lock);
    bool done = serve(w, call);
    pthread_mutex_lock(&w->lock);
    dlk_list_append(done ? &w->ready : &w->queue, &call->link);
    if (done)
      kick(w);
  }
  pthread_mutex_unlock(&w->lock);
  hang_up(w);
  pthread_mutex_lock(&w->lock);
  w->through = true;
  kick(w);
  pthread_mutex_unlock(&w->lock);
  unref(w);
  return NULL;
}

/* ---- the loop ---- */

static void tell_gone(struct dlk_sql_worker *w) {
  if (w->told_gone)
    return;
  w->told_gone = true;
  w->events->gone(w->user, w);
  unref(w);
}

static void deliver_notes(struct dlk_sql_worker *w, struct dlk_list *notes) {
  while (!dlk_list_empty(notes)) {
    struct note *n = DLK_CONTAINER(notes->next, struct note, link);
    dlk_list_remove(&n->link);
    if (n->kind == NOTE_HEARD)
      w->events->heard(w->user, n->text);
    else if (n->kind == NOTE_LISTENS)
      w->events->listening(w->user, n->hears);
    else
      w->host->event(w->host, n->word, n->text);
    free(n);
  }
}

static void deliver(struct dlk_post *post) {
  struct dlk_sql_worker *w = DLK_CONTAINER(post, struct dlk_sql_worker, post);
  struct dlk_list ready, notes;
  pthread_mutex_lock(&w->lock);
  w->posted = false;
  bool abandoned = !w->host, through = w->through;
  dlk_list_take(&w->ready, &ready);
  dlk_list_take(&w->notes, &notes);
  pthread_mutex_unlock(&w->lock);
  if (abandoned) {
    free_calls(&ready);
    free_notes(&notes);
    tell_gone(w);
    return;
  }
  deliver_notes(w, &notes);
  while (!dlk_list_empty(&ready)) {
    struct dlk_sql_call *call =
        DLK_CONTAINER(ready.next, struct dlk_sql_call, link);
    dlk_list_remove(&call->link);
    call->answer(call);
  }
  if (through)
    tell_gone(w);
}

struct dlk_sql_worker *
dlk_sql_worker_start(struct dlk_host *host,
                     const struct dlk_sql_dialect *dialect,
                     const struct dlk_sql_place *place,
                     const struct dlk_sql_events *events, void *user) {
  struct dlk_sql_worker *w = calloc(1, sizeof *w);
  struct dlk_sql_place own = *place;
  if (!w || pthread_mutex_init(&w->lock, NULL) != 0) {
    dlk_sql_place_free(&own);
    free(w);
    return NULL;
  }
  atomic_init(&w->refs, 2);
  w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  w->dialect = dialect;
  w->events = events;
  w->user = user;
  w->place = own;
  w->host = host;
  w->post.run = deliver;
  dlk_list_init(&w->queue);
  dlk_list_init(&w->ready);
  dlk_list_init(&w->notes);
  if (w->wake >= 0 && dlk_native_start(NULL, STACK_SIZE, thread, w) == 0)
    return w;
  unref(w);
  unref(w);
  return NULL;
}

void dlk_sql_worker_put(struct dlk_sql_worker *w, struct dlk_sql_call *call) {
  pthread_mutex_lock(&w->lock);
  dlk_list_append(&w->queue, &call->link);
  pthread_mutex_unlock(&w->lock);
  wake(w);
}

bool dlk_sql_worker_withdraw(struct dlk_sql_worker *w,
                             struct dlk_sql_call *call) {
  bool found = false;
  pthread_mutex_lock(&w->lock);
  for (struct dlk_list *l = w->queue.next; l != &w->queue && !found;
       l = l->next)
    found = l == &call->link;
  if (found)
    dlk_list_remove(&call->link);
  pthread_mutex_unlock(&w->lock);
  if (found)
    dlk_sql_call_free(call);
  return found;
}

void dlk_sql_worker_keep(struct dlk_sql_worker *w, bool kept) {
  pthread_mutex_lock(&w->lock);
  bool changed = w->kept != kept;
  w->kept = kept;
  pthread_mutex_unlock(&w->lock);
  if (changed)
    wake(w);
}

void dlk_sql_worker_end(struct dlk_sql_worker *w, int64_t deadline) {
  pthread_mutex_lock(&w->lock);
  w->closing = true;
  w->end = deadline;
  w->kept = false;
  pthread_mutex_unlock(&w->lock);
  wake(w);
}

void dlk_sql_worker_abandon(struct dlk_sql_worker *w) {
  pthread_mutex_lock(&w->lock);
  w->host = NULL;
  w->place.secret = NULL;
  bool now = !w->posted;
  pthread_mutex_unlock(&w->lock);
  if (now)
    tell_gone(w);
}
