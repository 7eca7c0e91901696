/* Why a hold needs more than an answer, and how long it may then be believed.
 *
 * A hold is an ephemeral node, which lives as long as its session lives at
 * the leader. Answers to pings, reads and sync prove nothing about that: a
 * leader cut off from its majority, and a server cut off from its leader,
 * give them long after the majority dropped the session. Only a committed
 * write passes through the majority. And even a write through a follower does
 * not renew the session at the leader: only the follower's replies to the
 * leader's pings carry the touch there.
 *
 * So confirms are quorum writes, one at a time, sent at least timeout/4
 * apart. When confirm k is answered the session lives until
 *     send time of confirm k-2  +  timeout  -  margin:
 * confirm k-2 touched the session at our server before k-1 was sent; between
 * the sending of k-1 and of k lies timeout/4, in which the leader pings each
 * follower at least once (every tick/2, and timeout >= 2 ticks); the
 * follower's reply carries the touch and lies before request k on the same
 * connection to the leader; and k was committed, so the leader read it. The
 * leader therefore counts the timeout from a time not before the sending of
 * k-2. On another connection nothing of this holds, so the chain starts anew;
 * a time promised before stays promised. A fresh session was made by a quorum
 * write itself, after its connect was sent.
 *
 * Creates and deletes of nodes count as confirms when they fit the spacing;
 * only when none did, a confirm of its own is sent. */
#include "confirm.h"

#define SPACING(timeout) ((timeout) / 4)

void dlk_zk_confirm_start(struct dlk_zk_confirm *c, int64_t sent,
                          int64_t timeout) {
  c->timeout = timeout;
  c->horizon = dlk_lease_deadline(sent, timeout);
  dlk_zk_confirm_restart(c);
}

void dlk_zk_confirm_restart(struct dlk_zk_confirm *c) {
  c->count = 0;
  c->flying = 0;
}

int64_t dlk_zk_confirm_due(const struct dlk_zk_confirm *c) {
  if (c->flying)
    return DLK_FOREVER;
  return c->count ? c->sent[1] + SPACING(c->timeout) : 0;
}

uint32_t dlk_zk_confirm_sent(struct dlk_zk_confirm *c, int64_t now) {
  if (now < dlk_zk_confirm_due(c))
    return 0;
  if (++c->last_token == 0)
    c->last_token = 1;
  c->flying = c->last_token;
  c->flying_sent = now;
  return c->flying;
}

bool dlk_zk_confirm_answered(struct dlk_zk_confirm *c, uint32_t token,
                             bool ok) {
  if (token == 0 || token != c->flying)
    return false;
  c->flying = 0;
  if (!ok)
    return false;
  int64_t base = c->sent[0];
  bool proves = c->count == 2;
  c->sent[0] = c->sent[1];
  c->sent[1] = c->flying_sent;
  if (c->count < 2)
    c->count++;
  if (!proves)
    return false;
  int64_t until = dlk_lease_deadline(base, c->timeout);
  if (until <= c->horizon)
    return false;
  c->horizon = until;
  return true;
}

/* The worst case for a grant now, whose create is the next confirm: each
 * further confirm follows a spacing later, and each must find the horizon
 * that the one before it left still ahead, with a tenth of the timeout for
 * the answers to arrive. */
bool dlk_zk_confirm_sustains(const struct dlk_zk_confirm *c, int64_t now) {
  int64_t slack = c->timeout / 10;
  int64_t horizon = c->horizon;
  for (int i = 0; i < 2; i++) {
    if (horizon < now + i * SPACING(c->timeout) + slack)
      return false;
    if (i >= 2 - c->count) {
      int64_t until = dlk_lease_deadline(c->sent[i], c->timeout);
      horizon = until > horizon ? until : horizon;
    }
  }
  return horizon >= now + 2 * SPACING(c->timeout) + slack;
}
