/* What a connection does when its one timer fires: an attempt or an answer that
 * is too late, a pause that is over, a silence that may be a death, or nothing
 * to do for so long that the connection is closed. conn.c arms the timer and
 * never moves it to later; so here is looked what is due. */
#include "store/redis/conn/conn.h"

/* Whether it is really too late: nobody may have run the loop for long (no one
 * waited, or the process stood still), and then the answer is there and only
 * has to be read. So the loop runs once more before it counts as missing. */
static bool too_late(struct dlk_redis_conn *c) {
  bool second = c->second_look;
  c->second_look = !second;
  if (!second)
    dlk_redis_conn_arm(c, c->host->now(c->host) + DLK_MS);
  return second;
}

/* Nothing is asked on a connection that only listens, so its silence says
 * nothing: while it matters it is asked, by PING behind all that is under way.
 * Whatever comes then is the sign of life, a refusal too. */
static void check_hearing(struct dlk_redis_conn *c, int64_t at) {
  static const char ping[] = "*1\r\n$4\r\nPING\r\n";
  int64_t due =
      dlk_time_add(c->used, c->asked ? c->conf->io_timeout : DLK_REDIS_SILENCE);
  if (at >= due && c->asked) {
    if (too_late(c))
      dlk_redis_conn_lost(c, "the server did not answer in time");
    return;
  }
  if (at < due) {
    dlk_redis_conn_arm(c, due);
    return;
  }
  if (!c->events->needed(c)) {
    dlk_redis_conn_arm(c, dlk_time_add(at, DLK_REDIS_SILENCE));
    return;
  }
  c->asked = true;
  c->used = at;
  dlk_redis_conn_arm(c, dlk_time_add(at, c->conf->io_timeout));
  dlk_buf_add(&c->out, ping, sizeof ping - 1);
  if (c->out.failed)
    dlk_redis_conn_lost(c, "out of memory");
  else if (!c->blocked)
    dlk_redis_conn_send(c);
}

static void check_time(struct dlk_redis_conn *c, int64_t at) {
  int64_t due;
  if (c->events->push) {
    check_hearing(c, at);
    return;
  }
  if (!dlk_list_empty(&c->flying)) {
    due = dlk_time_add(
        DLK_CONTAINER(c->flying.next, struct dlk_redis_req, entry)->sent,
        c->conf->io_timeout);
    if (at >= due) {
      if (too_late(c))
        dlk_redis_conn_lost(c, "the server did not answer in time");
      return;
    }
  } else {
    due = dlk_time_add(c->used, DLK_REDIS_IDLE_CLOSE);
    if (at >= due && !c->wanted) {
      dlk_redis_conn_off(c);
      return;
    }
    if (at >= due)
      due = dlk_time_add(at, DLK_REDIS_IDLE_CLOSE);
  }
  dlk_redis_conn_arm(c, due);
}

void dlk_redis_conn_fire(struct dlk_timer *timer, int64_t at) {
  struct dlk_redis_conn *c = DLK_CONTAINER(timer, struct dlk_redis_conn, timer);
  switch (c->state) {
  case DLK_REDIS_PAUSE:
    dlk_redis_conn_pause_over(c);
    break;
  case DLK_REDIS_OPENING:
    if (too_late(c))
      dlk_redis_conn_lost(
          c, "could not connect in time; check the host and firewalls");
    break;
  case DLK_REDIS_GREETING:
    if (too_late(c))
      dlk_redis_conn_lost(
          c, "accepts connections but does not answer; is it Redis?");
    break;
  case DLK_REDIS_READY:
  case DLK_REDIS_DRAINING:
    check_time(c, at);
    break;
  case DLK_REDIS_OFF:
  case DLK_REDIS_STOPPED:
    break;
  }
}
