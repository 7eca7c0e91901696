/* Detached holds of stores whose leases hang on the process: a list of the
 * process, under its own lock, from which another Lua state may take one up.
 * While in here a hold is not renewed, so that one that nobody takes up ends at
 * its ttl (from now, unless it was never to be renewed); the list has no entry
 * for a hold that is not held.
 *
 * A text is "here-PROCESS-SECRET", where PROCESS is a number drawn at the first
 * detach of a process (a child of a fork draws another, and its list begins
 * empty: its parent's engines are of no use to it). What is not in the
 * list although it names this process was in it: it was attached, or its hold
 * ended, and nobody has to remember which texts there were.
 *
 * The lock guards the listeners' lists too. It is taken across fork(), so that
 * no child finds it taken by a thread that the child does not have.
 *
 * Why it is here, and not a store's: such a lease hangs on a session or on
 * descriptors that the engine's store has, so it can move to another Lua state
 * only as a whole, with the engine that renews it. What that costs is one
 * pointer in a hold and one in a ticket (the listener), this file, and in
 * watch.c the way to tell an engine whose loop another thread owns. */
#include "engine/transfer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK "here-"
#define MARK_LEN (sizeof MARK - 1)
#define PROCESS_LEN (MARK_LEN + 16)
#define TEXT_LEN (PROCESS_LEN + 1 + 32)

struct entry {
  struct entry *next;
  struct dlk_hold *hold;
  char text[64];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool handled;
static struct entry *entries; /* under the lock, as what follows */
static pid_t drawn_by;        /* 0: nobody drew the number yet */
static uint64_t process;

static void enter(void) {
  pthread_mutex_lock(&lock);
}

static void leave(void) {
  pthread_mutex_unlock(&lock);
}

static void watch_forks(void) {
  handled = pthread_atfork(enter, leave, leave) == 0;
}

bool dlk_transfers_init(struct dlk_transfers *tr) {
  dlk_list_init(&tr->adopted);
  pthread_once(&once, watch_forks);
  return handled;
}

/* ---- the listener ----
 *
 * A hold that another store attached stays with the engine that got it, which
 * renews it and does what is asked of it; the other store hears of it (tickets
 * and events), and closing either ends it. One that closes meanwhile says so
 * (`closing`) and then takes what is in its list; adopting puts it into the
 * list and then looks, so one of them ends it. Its handle may be released while
 * that goes on, and then waits for it (see on_hold.c), or is told `closed` if
 * its own store stops before. */

static void disown(struct dlk_hold *h) {
  struct dlk_engine *l = h->listener;
  if (!l)
    return;
  enter();
  dlk_list_remove(&h->adopted);
  leave();
}

bool dlk_transfer_adopt(struct dlk_hold *h, struct dlk_engine *by) {
  disown(h);
  dlk_engine_unref(h->listener);
  h->listener = NULL;
  h->detached = false;
  if (by == h->engine)
    return true;
  dlk_engine_ref(by);
  h->listener = by;
  enter();
  dlk_list_append(&by->transfers->adopted, &h->adopted);
  leave();
  return !atomic_load(&by->closing);
}

/* What is in the list is held, so its engine has a reference. */
static struct dlk_hold *take_adopted(struct dlk_transfers *tr) {
  struct dlk_hold *h = NULL;
  enter();
  if (!dlk_list_empty(&tr->adopted)) {
    h = DLK_CONTAINER(tr->adopted.next, struct dlk_hold, adopted);
    dlk_list_remove(&h->adopted);
    dlk_hold_ref(h);
  }
  leave();
  return h;
}

void dlk_transfer_release_adopted(struct dlk_engine *e) {
  for (struct dlk_hold *h; (h = take_adopted(e->transfers)) != NULL;) {
    if (!dlk_engine_forked(h->engine)) /* else it is our parent's */
      dlk_hold_release_later(h);
    dlk_hold_unref(h);
  }
}

/* ---- the list of detached holds ---- */

/* Under the lock: whether the list is this process's, and not its parent's. */
static bool is_drawn(void) {
  return drawn_by == getpid();
}

/* Takes the entry out that `found` says yes to. */
static struct entry *take(bool (*found)(const struct entry *en, const void *of),
                          const void *of) {
  enter();
  struct entry **p = &entries;
  while (*p && !found(*p, of))
    p = &(*p)->next;
  struct entry *en = is_drawn() ? *p : NULL;
  if (en)
    *p = en->next;
  leave();
  return en;
}

/* The number of this process; drawn: what it is from now on if it has none. */
static uint64_t number_of_process(uint64_t drawn) {
  enter();
  if (!is_drawn()) {
    drawn_by = getpid();
    process = drawn;
    entries = NULL;
  }
  uint64_t number = process;
  leave();
  return number;
}

static struct dlk_value *make_text(struct dlk_hold *h, struct entry *en) {
  uint64_t random[3];
  struct dlk_engine *e = h->engine;
  e->host.random(&e->host, random, sizeof random);
  int n = snprintf(en->text, sizeof en->text,
                   MARK "%016" PRIx64 "-%016" PRIx64 "%016" PRIx64,
                   number_of_process(random[0]), random[1], random[2]);
  return dlk_value_string(en->text, (size_t)n);
}

struct dlk_value *dlk_transfer_put(struct dlk_hold *h) {
  struct entry *en = calloc(1, sizeof *en);
  struct dlk_value *text = en ? make_text(h, en) : NULL;
  if (!text) {
    free(en);
    return NULL;
  }
  disown(h);
  h->renew = false;
  h->detached = true;
  if (h->renews)
    h->lease.sent = dlk_clock_now();
  dlk_hold_extended(h, h->lease.ttl);
  dlk_hold_ref(h);
  en->hold = h;
  enter();
  en->next = entries;
  entries = en;
  leave();
  return text;
}

static bool is_of(const struct entry *en, const void *hold) {
  return en->hold == hold;
}

static void forget(struct dlk_hold *h) {
  h->detached = false;
  struct entry *en = take(is_of, h);
  if (!en)
    return;
  free(en);
  dlk_hold_unref(h);
}

void dlk_transfer_end(struct dlk_hold *h) {
  if (h->detached)
    forget(h);
  disown(h);
}

struct wanted {
  const struct dlk_engine *engine;
  const char *text;
  size_t len;
};

/* The lease's key is what it is without the prefix, so with another prefix it
 * would be another lock's. */
static bool same_keys(const struct dlk_engine *a, const struct dlk_engine *b) {
  return strcmp(a->shown, b->shown) == 0 && strcmp(a->prefix, b->prefix) == 0;
}

static bool has_text(const struct entry *en, const struct wanted *w) {
  return strlen(en->text) == w->len && memcmp(en->text, w->text, w->len) == 0;
}

static bool is_wanted(const struct entry *en, const void *of) {
  const struct wanted *w = of;
  return has_text(en, w) && same_keys(en->hold->engine, w->engine);
}

struct dlk_hold *dlk_detached_find(const struct dlk_engine *e, const char *text,
                                   size_t len) {
  struct entry *en = take(is_wanted, &(struct wanted){e, text, len});
  struct dlk_hold *h = en ? en->hold : NULL;
  free(en);
  return h;
}

bool dlk_detached_is_text(const char *text, size_t len) {
  static const char digits[] = "0123456789abcdef";
  return len == TEXT_LEN && memcmp(text, MARK, MARK_LEN) == 0 &&
         strspn(text + MARK_LEN, digits) == PROCESS_LEN - MARK_LEN &&
         text[PROCESS_LEN] == '-' &&
         strspn(text + PROCESS_LEN + 1, digits) == TEXT_LEN - PROCESS_LEN - 1;
}

bool dlk_detached_was_here(const char *text, size_t len) {
  char ours[PROCESS_LEN + 1];
  const struct wanted w = {NULL, text, len};
  enter();
  bool drawn = is_drawn();
  snprintf(ours, sizeof ours, MARK "%016" PRIx64, process);
  const struct entry *en = entries;
  while (en && !has_text(en, &w))
    en = en->next;
  leave();
  return drawn && !en && len > PROCESS_LEN &&
         memcmp(text, ours, PROCESS_LEN) == 0;
}
