/* How long a session (a lease) is known to live.
 *
 * A proof is a LeaseKeepAlive and, sent behind its answer, a linearizable read
 * of a key on the lease. The leader counts the whole TTL anew when it handles
 * the keepalive, which is after it was sent. The read says that the lease had
 * not been revoked since: its keys are there, by the word of a majority.
 *
 * When proof k is answered, the lease lives until
 *     send time of keepalive k-1  +  TTL  -  margin.
 * One proof is given away for servers before 3.4.38, 3.5.23 and 3.6.5: a lease
 * that has run out, and whose revocation is under way, may still have its
 * keepalive answered (etcd PR 20615). It may even be read behind that. It had
 * run out a TTL after keepalive k-1 at the earliest.
 *
 * A new leader gives every lease its whole TTL again, so no change of leader
 * and no reconnection shortens one. What it takes: clocks run at the margin's
 * rate, and no leader that has lost its majority revokes leases of old (etcd
 * issue 15247, mended in 3.4.31 and 3.5.13: docs/etcd.md).
 *
 * Creates and deletes prove nothing: they do not renew a lease. */
#include "store/session/etcd/proof.h"

static int64_t spacing(const struct dlk_ss_proof *p) {
  return p->timeout / 4;
}

static void restart(struct dlk_ss_proof *p) {
  p->flying = 0;
  p->due = 0;
}

static void start(struct dlk_ss_proof *p, int64_t sent, int64_t timeout) {
  p->timeout = timeout;
  p->horizon = dlk_lease_deadline(sent, timeout);
  p->sent[0] = p->sent[1] = sent;
  p->flying = 0;
  p->due = dlk_time_add(sent, spacing(p));
}

static int64_t due(const struct dlk_ss_proof *p) {
  return p->flying ? DLK_FOREVER : p->due;
}

static uint32_t sent_next(struct dlk_ss_proof *p, enum dlk_ss_verb verb,
                          int64_t now) {
  if (verb != DLK_SS_PROVE || now < due(p))
    return 0;
  if (++p->last_token == 0)
    p->last_token = 1;
  p->flying_sent = now;
  return p->flying = p->last_token;
}

static bool answered(struct dlk_ss_proof *p, uint32_t token, bool ok,
                     int64_t now) {
  if (token == 0 || token != p->flying)
    return false;
  p->flying = 0;
  if (!ok)
    return false;
  int64_t until = dlk_lease_deadline(p->sent[1], p->timeout);
  p->sent[1] = p->flying_sent;
  p->due = dlk_time_add(now, spacing(p));
  if (until <= p->horizon)
    return false;
  p->horizon = until;
  return true;
}

/* The next proof must be answered before the horizon, and the one after that
 * before the horizon that it leaves: a tenth of the TTL is for the answers. */
static bool sustains(const struct dlk_ss_proof *p, int64_t now) {
  int64_t slack = p->timeout / 10;
  int64_t next = p->due > now ? p->due : now;
  int64_t until = dlk_lease_deadline(p->sent[1], p->timeout);
  if (until < p->horizon)
    until = p->horizon;
  return p->horizon >= next + slack && until >= next + spacing(p) + slack;
}

const struct dlk_ss_rule dlk_etcd_proof = {
    .start = start,
    .restart = restart,
    .due = due,
    .sent = sent_next,
    .answered = answered,
    .sustains = sustains,
};
