/* Why a hold needs more than an answer, and how long it may then be believed.
 *
 * A hold is an ephemeral node, which lives as long as its session lives at
 * the leader. Answers to pings, reads and sync prove nothing about that: a
 * leader cut off from its majority, and a server cut off from its leader,
 * give them long after the majority dropped the session. Only a committed
 * write passes through the majority. And even a write through a follower does
 * not renew the session at the leader: only two messages of the follower do
 * (SessionTrackerImpl.touchSession has no other caller there): its reply to a
 * ping of the leader, which names the sessions it heard of since the one
 * before, and REVALIDATE, which it sends when a client attaches a session to
 * it, before it lets the client in.
 *
 * So confirms are quorum writes, one at a time, each sent a spacing after the
 * answer to the one before. When confirm k is answered, the session lives
 * until
 *     send time of confirm k-2  +  timeout  -  margin,
 * where the first two "confirms" of a connection are, both, the last one that
 * was answered on an earlier connection (in a fresh session: its opening). Two
 * proofs, the second for the third and later confirms of a connection:
 *
 * 1. Reattaching. The first confirm of a connection that is answered proves
 *    the send time of the last one answered before the cut. That answer had
 *    been received when the library lost the connection and only then began
 *    the next, so the handshake was sent later still; the server that took it
 *    asked its leader L (or is L), and L counted the timeout anew before the
 *    client was told that it is connected. The confirm went the same way: a
 *    server that loses its leader, and a leader that loses its majority, closes
 *    the connections of its clients first, so an answer on this connection
 *    comes from L. It was committed, so L was the leader when L counted. (A
 *    leader elected later counts every session from its own start, which
 *    follows that commit.) The request must have been *answered* before the
 *    cut: one that was sent, and lost, may have been sent after the handshake,
 *    for the library reconnects before we hear of it. For the same reason an
 *    answer on this connection to a request sent before we heard of it counts
 *    for nothing. A fresh session was made by a quorum write itself, after its
 *    connect was sent.
 * 2. Pings. Our server had processed confirm k-2 when it answered it. In the
 *    spacing between that answer and the sending of k-1 the leader pings each
 *    follower at least once (every half tick; timeout >= 2 ticks). That ping
 *    lies before the commit of k-1 on the one connection from the leader, and
 *    so does the follower's reply, which carries the touch, before request k
 *    on the one back. And k was committed, so the leader had read the reply.
 *
 * A follower that is paused, or a network that is slow, moves these messages in
 * time but not past each other. The spacing is a little more than a quarter of
 * the timeout, since at 2 ticks a quarter is half a tick, and the leader's
 * pings lie half a tick and a bit apart. What cannot be seen from here, and the
 * servers' configuration has to grant: timeout >= 2 ticks (their default for
 * the least timeout; 4 ticks through observers that take part at a follower,
 * observerMasterPort, where each ping has two hops), and one maxSessionTimeout
 * and minSessionTimeout for all: a server with smaller ones shortens the
 * session when it is attached there, and if its answer is lost we never hear
 * of it.
 *
 * Creates and deletes of nodes count as confirms when they fit the spacing;
 * only when none did, a confirm of its own is sent. */
#include "store/zookeeper/confirm.h"

static int64_t spacing(const struct dlk_ss_proof *c) {
  return c->timeout / 4 + c->timeout / 64;
}

static void restart(struct dlk_ss_proof *c) {
  c->sent[0] = c->sent[1];
  c->flying = 0;
  c->due = 0;
}

static void start(struct dlk_ss_proof *c, int64_t sent, int64_t timeout) {
  c->timeout = timeout;
  c->horizon = dlk_lease_deadline(sent, timeout);
  c->sent[1] = sent;
  restart(c);
}

static int64_t due(const struct dlk_ss_proof *c) {
  return c->flying ? DLK_FOREVER : c->due;
}

static uint32_t sent_next(struct dlk_ss_proof *c, int64_t now) {
  if (now < due(c))
    return 0;
  if (++c->last_token == 0)
    c->last_token = 1;
  c->flying = c->last_token;
  c->flying_sent = now;
  return c->flying;
}

static bool answered(struct dlk_ss_proof *c, uint32_t token, bool ok,
                     int64_t now) {
  if (token == 0 || token != c->flying)
    return false;
  c->flying = 0;
  if (!ok)
    return false;
  int64_t until = dlk_lease_deadline(c->sent[0], c->timeout);
  c->sent[0] = c->sent[1];
  c->sent[1] = c->flying_sent;
  c->due = dlk_time_add(now, spacing(c));
  if (until <= c->horizon)
    return false;
  c->horizon = until;
  return true;
}

/* The worst case for a grant now, whose create is the next confirm: each
 * further confirm follows a spacing later, and each must find the horizon
 * that the one before it left still ahead, with a tenth of the timeout for
 * the answers to arrive. */
static bool sustains(const struct dlk_ss_proof *c, int64_t now) {
  int64_t slack = c->timeout / 10;
  int64_t horizon = c->horizon;
  for (int i = 0; i < 2; i++) {
    if (horizon < now + i * spacing(c) + slack)
      return false;
    int64_t until = dlk_lease_deadline(c->sent[i], c->timeout);
    horizon = until > horizon ? until : horizon;
  }
  return horizon >= now + 2 * spacing(c) + slack;
}

const struct dlk_ss_rule dlk_zk_confirm = {
    .start = start,
    .restart = restart,
    .due = due,
    .sent = sent_next,
    .answered = answered,
    .sustains = sustains,
};
