/* A scope ends leases and waits with something outside (a request of nginx),
 * even if no Lua runs any more.
 *
 * It refers to each ticket that would leave something: a wait, a lease, or a
 * detach whose string was not taken. Its end posts to the loop, so it neither
 * blocks nor calls Lua.
 *
 * A scope is one thread's, and may begin anew. Tickets that are over are
 * dropped when their number has doubled. Of a lease the scope ends one handle;
 * others keep the hold. */
#include "engine/ticket/ticket.h"

#include <stdlib.h>
#include <string.h>

#define IN_PLACE 4 /* more entries need memory */

struct entry {
  struct dlk_ticket *ticket; /* NULL: a further handle */
  struct dlk_handle handle;  /* of a ticket: without hold */
};

struct dlk_scope {
  bool ended;
  size_t count, limit;
  struct entry *entries, in_place[IN_PLACE];
};

static void forget(struct dlk_scope *s) {
  s->count = 0;
  s->limit = IN_PLACE;
  s->entries = s->in_place;
}

struct dlk_scope *dlk_scope_new(void) {
  struct dlk_scope *s = malloc(sizeof *s);
  if (s) {
    s->ended = false;
    forget(s);
  }
  return s;
}

void dlk_scope_begin(struct dlk_scope *s) {
  s->ended = false;
}

bool dlk_scope_ended(const struct dlk_scope *s) {
  return s->ended;
}

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

static void end_one(const struct entry *en) {
  struct dlk_ticket *t = en->ticket;
  if (t)
    dlk_ticket_abandon(t);
  if (over(en) || (t && !(dlk_ticket_done(t) && is_taken(t))))
    return;
  struct dlk_handle handle = handle_of(en);
  if (dlk_handle_give_up(&handle))
    dlk_hold_release_later(handle.hold);
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

static void sweep(struct dlk_scope *s) {
  size_t kept = 0;
  for (size_t i = 0; i < s->count; i++) {
    if (over(&s->entries[i]))
      drop(&s->entries[i]);
    else
      s->entries[kept++] = s->entries[i];
  }
  s->count = kept;
}

static bool make_room(struct dlk_scope *s) {
  if (s->count < s->limit)
    return true;
  sweep(s);
  if (s->count <= s->limit / 2)
    return true;
  bool in_place = s->entries == s->in_place;
  struct entry *more =
      realloc(in_place ? NULL : s->entries, 2 * s->limit * sizeof *more);
  if (more && in_place)
    memcpy(more, s->in_place, sizeof s->in_place);
  if (more) {
    s->entries = more;
    s->limit *= 2;
  }
  return s->count < s->limit;
}

bool dlk_scope_wants(const struct dlk_ticket *t) {
  return dlk_ticket_gives(t) || t->task == DLK_TASK_WAIT_LOST ||
         dlk_ticket_is(t, DLK_OP_CHANGE);
}

bool dlk_scope_add(struct dlk_scope *s, struct dlk_ticket *t) {
  if (!dlk_scope_wants(t))
    return true;
  if (s->ended || !make_room(s)) {
    dlk_ticket_abandon(t);
    return false;
  }
  struct entry *en = &s->entries[s->count++];
  dlk_ticket_ref(t);
  *en = (struct entry){.ticket = t};
  t->owned = true;
  return true;
}

bool dlk_scope_add_handle(struct dlk_scope *s,
                          const struct dlk_handle *handle) {
  if (s->ended || !make_room(s)) {
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
  s->ended = true;
  for (size_t i = 0; i < s->count; i++) {
    if (!is_inherited(&s->entries[i]))
      end_one(&s->entries[i]);
    drop(&s->entries[i]);
  }
  if (s->entries != s->in_place)
    free(s->entries);
  forget(s);
}

void dlk_scope_free(struct dlk_scope *s) {
  if (s)
    dlk_scope_end(s);
  free(s);
}
