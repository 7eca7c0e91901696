/* An engine's references, state and what it tells of itself. A forked child
 * knows itself by a stamp: taken at first use, changed by every fork. */
#include "engine/state.h"

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

bool dlk_engine_is_ours(const struct dlk_engine *e, struct dlk_error *err) {
  if (!dlk_engine_forked(e))
    return true;
  dlk_error_set(err, DLK_FORKED,
                "'%s' was used before a fork; open it again in the child",
                e->shown);
  return false;
}

void dlk_engine_ref(struct dlk_engine *e) {
  dlk_count_add(&e->refs);
}

void dlk_engine_unref(struct dlk_engine *e) {
  if (e && atomic_fetch_sub(&e->refs, 1) == 1)
    e->free(e);
}

uint32_t dlk_engine_join_in(struct dlk_engine *e) {
  atomic_fetch_add(&e->users, 1);
  return atomic_fetch_add(&e->last_user, 1) + 1;
}

bool dlk_engine_leave(struct dlk_engine *e) {
  return atomic_fetch_sub(&e->users, 1) == 1;
}

bool dlk_engine_is_shared(const struct dlk_engine *e) {
  return atomic_load(&e->users) > 1;
}

bool dlk_engine_used(const struct dlk_engine *e) {
  return atomic_load(&e->fork_stamp) != 0;
}

bool dlk_engine_joined(const struct dlk_engine *e) {
  return atomic_load(&e->completions.closed);
}

bool dlk_engine_say_closed(const struct dlk_engine *e, struct dlk_error *err) {
  dlk_error_set(err, DLK_CLOSED, "the store '%s' was closed", e->shown);
  return false;
}

bool dlk_engine_is_open(const struct dlk_engine *e, struct dlk_error *err) {
  return !atomic_load(&e->closing) || dlk_engine_say_closed(e, err);
}

const char *dlk_engine_shown(const struct dlk_engine *e) {
  return e->shown;
}

const char *dlk_engine_prefix(const struct dlk_engine *e) {
  return e->prefix;
}

bool dlk_engine_is_portable(const struct dlk_engine *e, struct dlk_error *err) {
  if (e->type->portable)
    return true;
  dlk_error_set(err, DLK_UNSUPPORTED,
                "'%s': leases of this store end with their process, so none "
                "can be detached or attached; pass the lease object itself, or "
                "use Redis, etcd, PostgreSQL or MySQL to hand a lease to "
                "another process",
                e->shown);
  return false;
}

bool dlk_engine_tag(const struct dlk_engine *e, const char *key, size_t len,
                    char out[DLK_TAG_MAX]) {
  if (!e->type->tag)
    return false;
  e->type->tag(e->prefix, key, len, out);
  return true;
}

const struct dlk_stats *dlk_engine_stats(const struct dlk_engine *e) {
  return &e->stats;
}

bool dlk_engine_has_events(const struct dlk_engine *e) {
  return dlk_events_any(&e->events) ||
         (e->secret && dlk_secret_is_wanted(e->secret));
}

struct dlk_event *dlk_engine_events(struct dlk_engine *e) {
  return dlk_events_take(&e->events);
}
