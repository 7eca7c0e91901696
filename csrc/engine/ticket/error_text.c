/* A ticket's error text; a bare code gets a sentence of the engine. */
#include "engine/ticket/ticket.h"

#include <stdio.h>
#include <string.h>

static bool holds_key(const struct dlk_engine *e, const struct dlk_op *op) {
  const struct dlk_list *at;
  for (at = e->held.list.next; at != &e->held.list; at = at->next) {
    const struct dlk_lease *l =
        &DLK_CONTAINER(at, struct dlk_hold, link)->lease;
    if (l->key_len == op->key_len && memcmp(l->key, op->key, l->key_len) == 0)
      return true;
  }
  return false;
}

/* Another store object here has our name, too, but so may a process in another
 * container. Control bytes of a foreign name are replaced. */
static void holder_text(const struct dlk_ticket *t, char out[192]) {
  const struct dlk_engine *e = t->engine;
  const char *who = t->op.holder[0] ? t->op.holder : "somebody else";
  const char *us = "";
  if (strcmp(who, e->name) == 0 && holds_key(e, &t->op))
    us = " (this very process)";
  else if (strcmp(who, e->name) == 0 && !e->given_name)
    us = " (the name of this very process)";
  snprintf(out, 192, "%s%s", who, us);
  for (char *c = out; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 127)
      *c = '?';
}

static void standard_text(const struct dlk_ticket *t, enum dlk_code code,
                          struct dlk_error *err) {
  char key[DLK_QUOTED_MAX];
  char waited[32], who[192];
  dlk_quote(key, t->op.key, t->op.key_len);
  long long ms = (dlk_clock_now() - t->op.started) / DLK_MS;
  snprintf(waited, sizeof waited, "%lld.%03lld s", ms / 1000, ms % 1000);
  holder_text(t, who);
  if (t->task == DLK_TASK_WAIT_LOST && code == DLK_TIMEOUT)
    dlk_error_set(err, code, "%s was not lost within %s", key, waited);
  else if (code == DLK_TIMEOUT && t->op.kind == DLK_OP_ACQUIRE &&
           !t->op.holder[0])
    dlk_error_set(err, code, "%s was not granted within %s", key, waited);
  else if (code == DLK_TIMEOUT && t->op.kind == DLK_OP_ACQUIRE)
    dlk_error_set(err, code, "%s still held by %s after %s", key, who, waited);
  else if (code == DLK_TIMEOUT)
    dlk_error_set(err, code, "%s: nothing happened within %s", key, waited);
  else if (code == DLK_BUSY)
    dlk_error_set(err, code, "%s is held by %s", key, who);
  else if (code == DLK_CANCELLED)
    dlk_error_set(err, code, "the wait for %s was cancelled after %s", key,
                  waited);
  else if (code == DLK_CLOSED)
    dlk_error_set(err, code, "the store '%s' was closed", t->engine->shown);
  else if (code == DLK_LOST)
    dlk_error_set(err, code, "%s is not held by this lease any more: %s", key,
                  t->hold && t->hold->ended ? t->hold->ended
                                            : "it expired or was broken");
  else if (code == DLK_INVALID && t->op.kind == DLK_OP_LIST)
    dlk_error_set(err, code, "the cursor is not one that '%s' gave to list",
                  t->engine->shown);
  else if (code == DLK_UNSUPPORTED)
    dlk_error_set(err, code, "%s: the store '%s' cannot do that", key,
                  t->engine->shown);
  else
    dlk_error_set(err, code, "%s: no answer from '%s' within %s", key,
                  t->engine->shown, waited);
}

void dlk_ticket_keep_error(struct dlk_ticket *t, const struct dlk_error *err) {
  struct dlk_error own = *err;
  if (!err->text[0])
    standard_text(t, err->code, &own);
  if (err->text[0] || err->code == DLK_CLOSED) /* about a connection, say */
    dlk_error_name_key(&own, t->op.key, t->op.key_len);
  t->error = dlk_error_keep(&own);
}
