/* What becomes of a grant: the lease begins, or is given back, because nobody
 * wants it any more or it came when most of its time was over. */
#include "engine/hold/grant.h"

#include "engine/in_use.h"
#include "engine/local/handoff.h"
#include "engine/ticket/request.h"

static bool unwanted(const struct dlk_ticket *t) {
  return dlk_ticket_done(t) || dlk_ticket_is_abandoned(t) ||
         t->op.ending == DLK_CANCELLED || t->op.ending == DLK_CLOSED ||
         atomic_load(&t->engine->closing);
}

static void began(struct dlk_ticket *t, int64_t now) {
  struct dlk_hold *h = t->hold;
  DLK_TRACE(now, "engine", "grant", t->op.key, t->op.key_len,
            "fence %lld, after %s ms", (long long)h->lease.fence,
            dlk_trace_ms(now - t->op.started).text);
  if (t->op.kind == DLK_OP_ACQUIRE)
    dlk_stats_waited(&t->engine->stats, now - t->op.started);
  if (t->engine->behind_tls)
    dlk_in_use_behind_tls();
  dlk_handoff_held(h, t->queue);
}

void dlk_granted(struct dlk_ticket *t, int64_t now) {
  if (unwanted(t)) {
    atomic_store(&t->fate, DLK_FATE_GIVEN_BACK);
    dlk_hold_give_back(t->hold);
    dlk_request_finish_code(t, DLK_CANCELLED);
    return;
  }
  bool old = t->op.kind == DLK_OP_ATTACH && !t->op.renew;
  if (dlk_hold_begin(t->hold, now, old ? 1 : t->hold->lease.ttl / 10)) {
    began(t, now);
    dlk_request_finish(t, NULL);
    return;
  }
  /* The grant came when most of its time was over: not worth having. */
  dlk_hold_give_back(t->hold);
  bool again = t->op.kind == DLK_OP_ACQUIRE && t->op.wait &&
               t->op.ending == DLK_OK && now < t->op.deadline;
  if (again && dlk_ticket_new_candidate(t)) {
    dlk_request_submit(t);
    return;
  }
  char key[DLK_QUOTED_MAX];
  struct dlk_error err;
  dlk_error_set(&err, DLK_UNAVAILABLE,
                "%s: '%s' answered too late for its ttl of %lld ms; use a "
                "longer ttl",
                dlk_quote(key, t->op.key, t->op.key_len), t->engine->shown,
                (long long)(t->hold->lease.ttl / DLK_MS));
  dlk_request_finish(t, &err);
}

bool dlk_grant_pass(struct dlk_hold *h) {
  int64_t now = dlk_clock_now();
  struct dlk_ticket *t = dlk_handoff_pass(h, now);
  if (t)
    dlk_granted(t, now);
  return t != NULL;
}
