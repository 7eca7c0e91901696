/* A cap makes the units permits. */
#include "store/kit/shown.h"

#include "core/mode.h"

/* Others than dlock leave no name. */
static struct dlk_value *owned(struct dlk_value *owner) {
  if (!owner || owner->u.string.len > 0)
    return dlk_value_set(dlk_value_map(), "owner", owner);
  dlk_value_free(owner);
  return dlk_value_map();
}

struct dlk_value *dlk_shown_holder(struct dlk_value *owner,
                                   struct dlk_want want, int64_t fence,
                                   double ttl, double since) {
  struct dlk_value *v = owned(owner);
  v = dlk_value_set(v, "fence", dlk_value_int(fence));
  if (ttl >= 0)
    v = dlk_value_set(v, "ttl", dlk_value_number(ttl));
  if (since >= 0)
    v = dlk_value_set(v, "since", dlk_value_number(since));
  if (want.cap > 0)
    v = dlk_value_set(v, "permits", dlk_value_int(want.units));
  return v;
}

struct dlk_value *dlk_shown_waiter(struct dlk_value *owner,
                                   struct dlk_want want, double waited) {
  struct dlk_value *v = owned(owner);
  v = dlk_value_set(v, "mode", dlk_mode_value(want.units, want.cap));
  if (want.cap > 0)
    v = dlk_value_set(v, "permits", dlk_value_int(want.units));
  return waited < 0 ? v : dlk_value_set(v, "waited", dlk_value_number(waited));
}

struct dlk_value *dlk_shown_key(const struct dlk_op *op, struct dlk_want first,
                                bool held, struct dlk_value *holders,
                                struct dlk_value *waiters) {
  struct dlk_value *v = dlk_value_map();
  v = dlk_value_set(v, "key", dlk_value_string(op->key, op->key_len));
  if (held)
    v = dlk_value_set(v, "mode", dlk_mode_value(first.units, first.cap));
  if (first.cap > 0)
    v = dlk_value_set(v, "permits", dlk_value_int(first.cap));
  v = dlk_value_set(v, "holders", holders);
  return dlk_value_set(v, "waiters", waiters);
}
