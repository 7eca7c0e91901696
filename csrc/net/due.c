/* What a connection does when its one timer fires: an attempt or an answer that
 * is too late, a pause that is over, a silence that may be a death, or nothing
 * to do for so long that the connection is closed. */
#include "net/due.h"

#include "core/clock.h"

static struct dlk_net_due sleep_until(int64_t next) {
  return (struct dlk_net_due){.deed = DLK_NET_SLEEP, .next = next};
}

/* Whether it is really too late: nobody may have run the loop for long (no one
 * waited, or the process stood still), and then the answer is there and only
 * has to be read. So the loop runs once more before it counts as missing. */
static struct dlk_net_due too_late(struct dlk_net_times *t,
                                   const struct dlk_net_moment *m,
                                   const char *why) {
  t->looked = !t->looked;
  if (t->looked)
    return sleep_until(m->at + DLK_MS);
  return (struct dlk_net_due){.deed = DLK_NET_GIVE_UP, .why = why};
}

/* Nothing is asked on a connection that only listens, so its silence says
 * nothing: while it matters it is asked, by PING behind all that is under way.
 * Whatever comes then is the sign of life, a refusal too. */
static struct dlk_net_due listening(struct dlk_net_times *t,
                                    const struct dlk_net_moment *m) {
  int64_t due =
      dlk_time_add(t->used, t->asked ? m->io_timeout : DLK_NET_SILENCE);
  if (m->at < due)
    return sleep_until(due);
  if (t->asked)
    return too_late(t, m, "the server did not answer in time");
  if (!m->needed)
    return sleep_until(dlk_time_add(m->at, DLK_NET_SILENCE));
  t->asked = true;
  t->used = m->at;
  return (struct dlk_net_due){.deed = DLK_NET_PROBE_LIFE,
                              .next = dlk_time_add(m->at, m->io_timeout)};
}

static struct dlk_net_due asking(struct dlk_net_times *t,
                                 const struct dlk_net_moment *m) {
  int64_t due = m->oldest >= 0 ? dlk_time_add(m->oldest, m->io_timeout)
                               : dlk_time_add(t->used, DLK_NET_IDLE_CLOSE);
  if (m->at < due)
    return sleep_until(due);
  if (m->oldest >= 0)
    return too_late(t, m, "the server did not answer in time");
  if (m->wanted || m->needed)
    return sleep_until(dlk_time_add(m->at, DLK_NET_IDLE_CLOSE));
  return (struct dlk_net_due){.deed = DLK_NET_CLOSE};
}

static struct dlk_net_due connecting(struct dlk_net_times *t,
                                     const struct dlk_net_moment *m,
                                     const char *why) {
  return m->at >= t->until ? too_late(t, m, why) : sleep_until(t->until);
}

struct dlk_net_due dlk_net_due(struct dlk_net_times *t,
                               const struct dlk_net_moment *m) {
  switch (m->state) {
  case DLK_NET_PAUSE:
    return (struct dlk_net_due){.deed = DLK_NET_REOPEN};
  case DLK_NET_SEEKING:
    return connecting(t, m, "its address was not found in time");
  case DLK_NET_OPENING:
    return connecting(
        t, m, "could not connect in time; check the host and firewalls");
  case DLK_NET_HANDSHAKE:
    return connecting(t, m,
                      "accepts connections but does not answer; is it Redis?");
  case DLK_NET_READY:
  case DLK_NET_DRAINING:
    return m->listens ? listening(t, m) : asking(t, m);
  case DLK_NET_OFF:
  case DLK_NET_STOPPED:
    break;
  }
  return (struct dlk_net_due){.deed = DLK_NET_NOTHING};
}

#define PAUSE_FIRST (20 * DLK_MS)
#define PAUSE_LAST DLK_SEC

int64_t dlk_net_pause(unsigned failures, int64_t most, uint16_t jitter) {
  int64_t span = PAUSE_FIRST;
  if (most == 0)
    most = PAUSE_LAST;
  for (unsigned i = 1; i < failures && span < most; i++)
    span *= 2;
  if (span > most)
    span = most;
  return span / 2 + span / 2 * jitter / UINT16_MAX;
}

/* A server closes for idleness what was idle for whole seconds. What closes a
 * connection sooner (a restart, CLIENT KILL) is met as a lost answer, but not
 * by what is not sent again then. */
#define QUIET DLK_SEC
#define QUIET_ONCE (5 * DLK_MS)

bool dlk_net_may_be_closed(int64_t quiet, bool only_once) {
  return quiet >= (only_once ? QUIET_ONCE : QUIET);
}
