/* One proof at a time, each a spacing after the answer to the last. The
 * driver's rule says what an answer proves (driver.h). */
#include "store/session/life/proof.h"

static int64_t spacing(const struct dlk_ss_proof *p) {
  return p->timeout / 4 + p->timeout / 64;
}

void dlk_ss_proof_restart(struct dlk_ss_proof *p) {
  p->sent[0] = p->sent[1];
  p->flying = 0;
  p->due = 0;
}

void dlk_ss_proof_start(struct dlk_ss_proof *p, const struct dlk_ss_rule *rule,
                        int64_t sent, int64_t timeout) {
  p->rule = rule;
  p->timeout = timeout;
  p->horizon = dlk_lease_deadline(sent, timeout);
  p->sent[1] = sent;
  dlk_ss_proof_restart(p);
  if (!rule->writes)
    p->due = dlk_time_add(sent, spacing(p));
}

int64_t dlk_ss_proof_due(const struct dlk_ss_proof *p) {
  return p->flying ? DLK_FOREVER : p->due;
}

uint32_t dlk_ss_proof_sent(struct dlk_ss_proof *p, enum dlk_ss_verb verb,
                           int64_t now) {
  if (now < dlk_ss_proof_due(p) || (verb != DLK_SS_PROVE && !p->rule->writes))
    return 0;
  if (++p->last_token == 0)
    p->last_token = 1;
  p->sent[2] = now;
  return p->flying = p->last_token;
}

bool dlk_ss_proof_answered(struct dlk_ss_proof *p, uint32_t token, bool ok,
                           int64_t now) {
  if (token == 0 || token != p->flying)
    return false;
  p->flying = 0;
  if (!ok)
    return false;
  int64_t proven = p->sent[2 - p->rule->lag];
  int64_t until = dlk_lease_deadline(proven, p->timeout);
  p->sent[0] = p->sent[1];
  p->sent[1] = p->sent[2];
  p->due = dlk_time_add(now, spacing(p));
  if (until <= p->horizon)
    return false;
  p->horizon = until;
  return true;
}

/* The worst case for a grant: each further proof follows a spacing later (the
 * first at once, if the grant's create is one) and must meet the horizon that
 * the last one left, with a tenth of the timeout for answers to arrive. */
bool dlk_ss_proof_sustains(const struct dlk_ss_proof *p, int64_t now) {
  int64_t slack = p->timeout / 10, horizon = p->horizon;
  int64_t at = p->rule->writes || p->due < now ? now : p->due;
  for (unsigned i = 2 - p->rule->lag; i < 2; i++, at += spacing(p)) {
    if (horizon < at + slack)
      return false;
    int64_t until = dlk_lease_deadline(p->sent[i], p->timeout);
    horizon = until > horizon ? until : horizon;
  }
  return horizon >= at + slack;
}
