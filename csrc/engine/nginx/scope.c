/* Scopes of requests of nginx. A scope ends its request's leases and waits,
 * even if no Lua runs any more. It is found by the request's address from its
 * beginning to its end, which a clean-up of the request's pool calls, perhaps
 * after the Lua state's: the set lives until its last scope has ended.
 *
 * A scope refers to each ticket that would leave something: a wait, a lease, or
 * a detach whose string was not taken. Its end posts to the loop, so it neither
 * blocks nor calls Lua. Tickets that are over are dropped when their number has
 * doubled. Of a lease the scope ends one handle; others keep the hold. */
#include "core/map.h"
#include "engine/ticket/ticket.h"

#include <stdlib.h>

struct entry {
  struct dlk_ticket *ticket; /* NULL: a further handle */
  struct dlk_handle handle;  /* of a ticket: without hold */
};

struct dlk_scopes {
  bool dropped; /* by Lua's end */
  struct dlk_map live;
  uint64_t last;
};

struct dlk_scope {
  uint64_t number;
  struct dlk_scopes *set;
  const void *of;
  struct dlk_map_node node;
  size_t count, limit;
  struct entry *entries;
};

/* ---- the set ---- */

struct dlk_scopes *dlk_scopes_new(void) {
  return calloc(1, sizeof(struct dlk_scopes));
}

static void free_if_over(struct dlk_scopes *s) {
  if (!s->dropped || s->live.count > 0)
    return;
  dlk_map_clear(&s->live);
  free(s);
}

void dlk_scopes_drop(struct dlk_scopes *s) {
  if (!s)
    return;
  s->dropped = true;
  free_if_over(s);
}

struct dlk_scope *dlk_scopes_find(const struct dlk_scopes *s, const void *of) {
  struct dlk_map_node *node =
      dlk_map_get(&s->live, (const char *)&of, sizeof of);
  return node ? DLK_CONTAINER(node, struct dlk_scope, node) : NULL;
}

struct dlk_scope *dlk_scopes_begin(struct dlk_scopes *set, const void *of) {
  struct dlk_scope *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->set = set;
  s->of = of;
  s->number = ++set->last;
  if (dlk_map_put(&set->live, &s->node, (const char *)&s->of, sizeof s->of))
    return s;
  free(s);
  return NULL;
}

uint64_t dlk_scope_number(const struct dlk_scope *s) {
  return s->number;
}

/* ---- entries ---- */

static struct dlk_handle handle_of(const struct entry *en) {
  struct dlk_handle handle = en->handle;
  if (en->ticket)
    handle.hold = en->ticket->hold;
  return handle;
}

static bool is_taken(const struct dlk_ticket *t) {
  int fate = atomic_load(&t->fate);
  return fate == DLK_FATE_TAKEN || fate == DLK_FATE_GIVEN_BACK;
}

/* Nothing is left to end. */
static bool over(const struct entry *en) {
  struct dlk_ticket *t = en->ticket;
  if (t && !dlk_ticket_done(t))
    return false;
  if (t && (!dlk_ticket_gives(t) || dlk_ticket_error(t)))
    return true;
  if (t && dlk_ticket_detaches(t))
    return is_taken(t);
  struct dlk_handle handle = handle_of(en);
  return !dlk_hold_is_held(handle.hold) || dlk_handle_given_up(&handle);
}

/* A forked child leaves inherited entries alone. */
static bool is_inherited(const struct entry *en) {
  return dlk_engine_forked(en->ticket ? en->ticket->engine
                                      : en->handle.hold->engine);
}

static void drop(const struct entry *en) {
  if (is_inherited(en))
    return;
  if (en->ticket)
    dlk_ticket_drop_ref(en->ticket);
  else
    dlk_handle_unref(&en->handle);
}

static bool make_room(struct dlk_scope *s) {
  if (s->count < s->limit)
    return true;
  size_t count = s->count;
  s->count = 0;
  for (size_t i = 0; i < count; i++) {
    if (over(&s->entries[i]))
      drop(&s->entries[i]);
    else
      s->entries[s->count++] = s->entries[i];
  }
  size_t limit = s->limit ? 2 * s->limit : 4;
  struct entry *more = s->count > s->limit / 2 || s->limit == 0
                           ? realloc(s->entries, limit * sizeof *more)
                           : NULL;
  if (more) {
    s->entries = more;
    s->limit = limit;
  }
  return s->count < s->limit;
}

bool dlk_scope_wants(const struct dlk_ticket *t) {
  return dlk_ticket_gives(t) || t->task == DLK_TASK_WAIT_LOST ||
         dlk_ticket_is(t, DLK_OP_CHANGE);
}

void dlk_scope_add(struct dlk_scope *s, struct dlk_ticket *t) {
  if (!dlk_scope_wants(t))
    return;
  if (!make_room(s)) {
    dlk_ticket_abandon(t);
    return;
  }
  dlk_ticket_ref(t);
  s->entries[s->count++] = (struct entry){.ticket = t};
  t->owned = true;
}

bool dlk_scope_add_handle(struct dlk_scope *s,
                          const struct dlk_handle *handle) {
  if (!make_room(s)) {
    if (dlk_handle_give_up(handle))
      dlk_hold_release_later(handle->hold);
    return false;
  }
  dlk_handle_ref(handle);
  s->entries[s->count++] = (struct entry){.handle = *handle};
  return true;
}

bool dlk_ticket_owned(const struct dlk_ticket *t) {
  return t->owned;
}

void dlk_scope_end(struct dlk_scope *s) {
  struct dlk_scopes *set = s->set;
  dlk_map_remove(&set->live, &s->node);
  for (size_t i = 0; i < s->count; i++) {
    const struct entry *en = &s->entries[i];
    struct dlk_ticket *t = en->ticket;
    if (is_inherited(en))
      continue;
    if (t)
      dlk_ticket_abandon(t);
    if (!over(en) && (!t || (dlk_ticket_done(t) && is_taken(t)))) {
      struct dlk_handle handle = handle_of(en);
      if (dlk_handle_give_up(&handle))
        dlk_hold_release_later(handle.hold);
    }
    drop(en);
  }
  free(s->entries);
  free(s);
  free_if_over(set);
}
