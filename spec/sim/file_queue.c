/* The file store's admission rule and its table (queue.c, table.c) in random
 * histories: stores on one key's table come, leave, wait, hold for a minimum
 * time, become readers, and are killed, also between a change and its commit.
 * Each step loads the table, works on it and commits it, as under the mutex.
 * Checked against a plain queue:
 *
 * - the living who hold and who wait are those of the plain queue, in order,
 *   as soon as those who were woken, or whose neighbour died, have looked;
 * - whoever was let in by another was woken; fences rise;
 * - who watches the key is woken when its holders change;
 * - a change that was cut short by a kill is not there;
 * - whoever waits behind another limit is refused, by itself, when woken;
 * - when a minimum time ends, the first of the queue has a timer for it;
 * - the counts in the header agree with the lists. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plain.h"
#include "store/file/recipe/queue.h"

#define ONES 40
#define STORES 6
#define STEPS 60

struct one {
  bool there, woken, ghost; /* ghost: kept by its minimum time alone */
  uint64_t instance;
  int64_t until;
  int64_t timer; /* of one that waits: when it looks without being woken */
  struct dlk_want want;
  struct dlk_file_entry entry;
};

static struct dlk_file_dir store;
static struct plain plain;
static struct one ones[ONES + 1];
static bool alive[STORES + STEPS * 2];
static unsigned numbers[STORES], next_number; /* never used again */
static int64_t clock_now, last_fence;
static bool somebody_looks; /* a watched store died, or a time is over */
static uint64_t next_token, kind, seq;
static struct dlk_file_entry watcher; /* its store lives on */
static bool watcher_woken;
static uint64_t holders_seen;

/* ---- what queue.c asks for ---- */

bool dlk_file_peer_alive(struct dlk_file_dir *d, uint64_t instance) {
  (void)d;
  return instance != 0 && alive[instance];
}

bool dlk_file_peer_wake(struct dlk_file_dir *d, uint64_t instance,
                        uint64_t token) {
  (void)d;
  if (instance == 0 || !alive[instance])
    return false;
  watcher_woken |= token == watcher.token;
  for (unsigned i = 1; i <= ONES; i++)
    if (ones[i].there && ones[i].entry.token == token)
      ones[i].woken = true;
  return true;
}

int dlk_file_ttl_keep(struct dlk_file_dir *d, int64_t ttl) {
  (void)d;
  (void)ttl;
  return 0;
}

static int64_t now(struct dlk_host *host) {
  (void)host;
  return clock_now;
}

static struct dlk_host host = {.now = now};

/* Nothing is left behind here by one that lives. */
static bool claims(struct dlk_file_dir *d, uint64_t token) {
  (void)d;
  (void)token;
  return true;
}

static const struct dlk_file_dir_user user = {.claims = claims};

/* ---- a step: load, work, commit ---- */

static void begin(unsigned instance) {
  static const uint8_t boot[16] = {1};
  int error = dlk_file_table_load(&store.table, store.meta);
  if (error == ENODATA)
    dlk_file_table_make(&store.table, store.meta, 1000, boot);
  else if (error != 0)
    sim_wrong("load: error %d", error);
  store.instance = instance;
  store.holders_changed = false;
  seq = store.table.head.seq;
}

/* Killed before the commit. A change that was too large for one has been
 * committed in part and is no good example. */
static bool cut_short(void) {
  return sim_roll(20) == 0 && store.table.head.seq == seq;
}

static void end(void) {
  dlk_file_tell(&store);
  int error = dlk_file_table_commit(&store.table);
  if (error != 0)
    sim_wrong("commit: error %d", error);
}

static void kill_store(unsigned instance) {
  sim_say("store %u dies", instance);
  alive[instance] = false;
  somebody_looks = true;
  for (unsigned i = 1; i <= ONES; i++) {
    struct one *o = &ones[i];
    if (!o->there || o->instance != instance)
      continue;
    if (o->until > clock_now && plain_holds(&plain, i)) {
      o->ghost = true;
      continue;
    }
    o->there = false;
    plain_remove(&plain, i);
  }
  plain_admit(&plain);
}

static unsigned a_store(void) {
  unsigned *n = &numbers[sim_roll(STORES)];
  if (*n == 0 || !alive[*n]) {
    *n = ++next_number;
    alive[*n] = true;
  }
  return *n;
}

/* ---- looking ---- */

static const struct dlk_file_slot *slot_of(unsigned i) {
  return dlk_file_table_at(&store.table, ones[i].entry.slot);
}

static unsigned one_of(const struct dlk_file_slot *s) {
  for (unsigned i = 1; i <= ONES; i++)
    if (ones[i].there && ones[i].entry.token == s->token)
      return i;
  return 0;
}

/* As those do who were woken or saw a death (wait.c, arrange): drop what is
 * dead ahead, settle at the head. */
static void look_around(void) {
  begin((unsigned)store.instance);
  struct dlk_file_table *t = &store.table;
  uint32_t at = t->head.first[DLK_FILE_WAIT];
  while (at != 0) {
    if (dlk_file_table_room(t) != 0)
      break;
    struct dlk_file_slot s = *dlk_file_table_at(t, at);
    if (s.prev != 0 && !alive[s.instance])
      dlk_file_table_drop(t, at);
    at = s.next;
  }
  dlk_file_settle(&store);
  end();
}

static size_t walk(enum dlk_file_list which, unsigned out[PLAIN_MAX]) {
  struct dlk_file_table *t = &store.table;
  size_t n = 0, dead = 0;
  uint64_t used = 0;
  uint32_t at = t->head.first[which], before = 0;
  while (at != 0) {
    struct dlk_file_slot s = *dlk_file_table_at(t, at);
    if (s.list != which || s.prev != before)
      sim_wrong("a broken list");
    unsigned i = one_of(&s);
    if (i != 0)
      out[n++] = i;
    else
      dead++;
    used += s.units;
    before = at;
    at = s.next;
  }
  if (n + dead != t->head.count[which])
    sim_wrong("a count is wrong");
  if (which == DLK_FILE_HELD && t->head.used != used)
    sim_wrong("units in use are wrong");
  if (dead > 0)
    sim_wrong("%zu dead entries are left in list %d", dead, (int)which);
  return n;
}

static void check_fences(const unsigned *held, size_t n) {
  int64_t most = last_fence;
  for (size_t k = 0; k < n; k++) {
    struct one *o = &ones[held[k]];
    int64_t fence = slot_of(held[k])->fence;
    if (o->entry.told)
      continue; /* seen before */
    if (fence <= last_fence)
      sim_wrong("a fence does not rise");
    if (fence > most)
      most = fence;
    o->entry.told = true;
  }
  last_fence = most;
}

static void watch(void) {
  watcher.token = ++next_token;
  alive[++next_number] = true;
  begin(next_number);
  if (dlk_file_join(&store, &watcher, NULL, DLK_FILE_WATCH) != 0)
    sim_wrong("watch: error %d", store.table.error);
  end();
  holders_seen = 0;
}

/* Tokens are never used again, so another sum is another set. */
static void check_watcher(const unsigned *held, size_t n) {
  uint64_t sum = 0;
  for (size_t k = 0; k < n; k++)
    sum += UINT64_C(1) << held[k] | ones[held[k]].entry.token << 44;
  if (sum != holders_seen && !watcher_woken)
    sim_wrong("who watches is not told of a change");
  holders_seen = sum;
  watcher_woken = false;
}

static void check(unsigned self) {
  unsigned list[PLAIN_MAX];
  begin((unsigned)store.instance);
  size_t n = walk(DLK_FILE_HELD, list);
  if (n != plain.held)
    sim_wrong("%zu hold, due %zu", n, plain.held);
  for (size_t k = 0; k < n; k++) {
    unsigned i = list[k];
    if (!plain_holds(&plain, i))
      sim_wrong("#%u holds out of turn", i);
    if (!ones[i].entry.told && !ones[i].woken && i != self)
      sim_wrong("#%u was let in and not woken", i);
  }
  check_fences(list, n);
  check_watcher(list, n);
  n = walk(DLK_FILE_WAIT, list);
  if (n != plain.waiting)
    sim_wrong("%zu wait, due %zu", n, plain.waiting);
  for (size_t k = 0; k < n; k++)
    if (list[k] != plain.queue[k].id)
      sim_wrong("place %zu: #%u, due #%u", k, list[k], plain.queue[k].id);
  for (unsigned i = 1; i <= ONES; i++) {
    bool waits = ones[i].there && plain_waits(&plain, i);
    if (waits && slot_of(i)->list != DLK_FILE_WAIT)
      sim_wrong("#%u is not in the queue", i);
    ones[i].woken = false;
  }
}

/* ---- what happens ---- */

static struct dlk_want want(void) {
  struct dlk_want w = {0, 0};
  if (kind % 4 == 1 || (kind % 4 == 3 && sim_roll(2)))
    w.units = sim_roll(3) != 0;
  if (kind % 4 == 2) {
    w.cap = 2 + (uint32_t)(kind % 5);
    w.units = 1 + sim_roll(w.cap);
  }
  if (kind % 8 == 6) /* two limits and writers in between */
    w = sim_roll(3) ? (struct dlk_want){1, 3 + sim_roll(2)}
                    : (struct dlk_want){0, 0};

  return w;
}

/* As wait.c joins. */
static unsigned join(void) {
  unsigned i = 1;
  while (i <= ONES && ones[i].there)
    i++;
  if (i > ONES)
    return 0;
  struct one *o = &ones[i];
  unsigned instance = a_store();
  *o = (struct one){.instance = instance, .want = want()};
  o->entry.token = ++next_token;
  struct dlk_lease lease = {.want = o->want, .owner = "me"};
  if (sim_roll(kind % 5 == 0 ? 2 : 8) == 0)
    lease.min_hold = 1 + sim_roll(sim_roll(2) ? 40 : 8);
  begin(instance);
  struct dlk_file_table *t = &store.table;
  dlk_file_settle(&store);
  bool refused =
      dlk_file_other_limit(&store, o->want, t->head.last[DLK_FILE_WAIT]);
  if (refused != plain_refuses(&plain, i, o->want.units, o->want.cap))
    sim_wrong("#%u joins: refused %d", i, refused);
  if (refused) {
    end();
    return 0;
  }
  bool queue = t->head.count[DLK_FILE_WAIT] > 0;
  bool fits = !queue && dlk_file_fits(t, o->want);
  if (dlk_file_join(&store, &o->entry, &lease,
                    fits ? DLK_FILE_HELD : DLK_FILE_WAIT) != 0)
    sim_wrong("join: error %d", t->error);
  if (!fits)
    dlk_file_settle(&store);
  sim_say("#%u of store %u joins, units %u of %u", i, instance, o->want.units,
          o->want.cap);
  if (cut_short()) {
    kill_store(instance); /* before the commit */
    return 0;
  }
  end();
  o->there = true;
  plain_join(&plain, i, o->want.units, o->want.cap);
  if (plain_holds(&plain, i))
    o->until = slot_of(i)->until;
  return i;
}

/* As wait.c does when woken: who stands behind another limit leaves. That
 * wakes the next. */
static void refuse(bool all_look) {
  for (size_t k = 0; k < plain.waiting; k++) {
    unsigned i = plain.queue[k].id;
    struct one *o = &ones[i];
    if (!o->woken && !all_look)
      continue;
    begin((unsigned)o->instance);
    if (slot_of(i)->list != DLK_FILE_WAIT)
      sim_wrong("#%u does not wait any more", i);
    if (!dlk_file_other_limit(&store, o->want, slot_of(i)->prev))
      continue;
    sim_say("#%u is refused", i);
    dlk_file_withdraw(&store, o->entry.slot);
    end();
    o->there = false;
    plain_leave(&plain, i);
    k = (size_t)-1;
  }
  for (size_t k = 0; k < plain.waiting; k++) {
    const struct plain_one *w = &plain.queue[k];
    if (plain_refuses(&plain, w->id, w->units, w->cap))
      sim_wrong("#%u waits behind another limit", w->id);
  }
}

static void leave(void) {
  unsigned i = 1 + sim_roll(ONES), tries = 1;
  while ((!ones[i].there || ones[i].ghost) && tries++ < 10)
    i = 1 + sim_roll(ONES);
  struct one *o = &ones[i];
  if (!o->there || o->ghost)
    return;
  begin((unsigned)o->instance);
  if (!dlk_file_stands(&store, &o->entry))
    sim_wrong("#%u is gone", i);
  bool held = plain_holds(&plain, i);
  if (held)
    dlk_file_let_go(&store, o->entry.slot, false);
  else
    dlk_file_withdraw(&store, o->entry.slot);
  if (cut_short()) {
    kill_store((unsigned)o->instance); /* before the commit */
    return;
  }
  end();
  sim_say("#%u leaves", i);
  if (held && o->until > clock_now) {
    o->ghost = true;
    return;
  }
  o->there = false;
  plain_leave(&plain, i);
}

/* As admin.c does it. */
static void downgrade(void) {
  unsigned i = plain.held > 0 ? plain.holders[0].id : 0;
  struct one *o = &ones[i];
  if (i == 0 || o->ghost || o->want.units != 0)
    return;
  begin((unsigned)o->instance);
  dlk_file_table_unlink(&store.table, o->entry.slot);
  struct dlk_file_slot *slot = dlk_file_table_edit(&store.table, o->entry.slot);
  slot->units = 1;
  slot->cap = 0;
  dlk_file_table_append(&store.table, o->entry.slot, DLK_FILE_HELD);
  store.holders_changed = true;
  dlk_file_grant(&store);
  if (cut_short()) {
    kill_store((unsigned)o->instance); /* before the commit */
    return;
  }
  end();
  sim_say("#%u becomes a reader", i);
  o->want = (struct dlk_want){1, 0};
  plain_downgrade(&plain, i);
}

/* Whoever looks sets its timer anew, as wait.c does (watch_holders): the first
 * for the end of a minimum time. What it does to be sure is not counted on. */
static void set_timers(bool all_look, unsigned self) {
  begin((unsigned)store.instance);
  for (size_t k = 0; k < plain.waiting; k++) {
    struct one *o = &ones[plain.queue[k].id];
    if (!o->woken && !all_look && plain.queue[k].id != self)
      continue;
    o->timer = INT64_MAX;
    for (size_t h = 0; h < plain.held && k == 0; h++) {
      int64_t until = slot_of(plain.holders[h].id)->until;
      if (until > clock_now && until < o->timer)
        o->timer = until;
    }
  }
}

static void pass(void) {
  const struct one *first = plain.waiting > 0 ? &ones[plain.queue[0].id] : NULL;
  clock_now += 1 + sim_roll(20);
  for (unsigned i = 1; i <= ONES; i++) {
    if (!ones[i].there || !ones[i].ghost || ones[i].until > clock_now)
      continue;
    if (first != NULL && first->timer > ones[i].until)
      sim_wrong("the time of #%u ends, and the first sleeps on", i);
    ones[i].there = false;
    plain_leave(&plain, i);
    somebody_looks = true;
  }
}

/* Those let in by another learn until when they hold. */
static void learn(void) {
  begin((unsigned)store.instance);
  for (unsigned i = 1; i <= ONES; i++)
    if (ones[i].there && plain_holds(&plain, i) &&
        slot_of(i)->list == DLK_FILE_HELD)
      ones[i].until = slot_of(i)->until;
}

static void history(uint64_t seed) {
  if (ftruncate(store.meta, 0) != 0)
    abort();
  memset(ones, 0, sizeof ones);
  memset(&plain, 0, sizeof plain);
  memset(alive, 0, sizeof alive);
  memset(numbers, 0, sizeof numbers);
  next_number = 0;
  kind = seed;
  clock_now = 1;
  last_fence = 0;
  watch();
  for (int step = 0; step < STEPS; step++) {
    unsigned self = 0;
    uint32_t what = sim_roll(21);
    if (what < 9)
      self = join();
    else if (what < 17)
      leave();
    else if (what < 18)
      kill_store(a_store());
    else if (what < 20)
      pass();
    else
      downgrade();
    store.instance = a_store();
    bool all_look = somebody_looks || sim_roll(10) == 0;
    if (all_look)
      look_around();
    somebody_looks = false;
    refuse(all_look);
    set_timers(all_look, self);
    check(self);
    learn();
  }
}

int main(int argc, char **argv) {
  store.host = &host;
  store.user = &user;
  store.meta = memfd_create("table", 0);
  if (store.meta < 0)
    abort();
  return sim_main(argc, argv, history);
}
