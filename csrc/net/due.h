/* What is due on a connection when its one timer fires: a judgement of what
 * stands, without any effect. conn.c arms the timer, never moves it to later,
 * and does what is due. */
#ifndef DLK_NET_DUE_H
#define DLK_NET_DUE_H

#include <stdbool.h>
#include <stdint.h>

enum dlk_redis_conn_state {
  DLK_REDIS_OFF,
  DLK_REDIS_PAUSE,   /* between two attempts */
  DLK_REDIS_SEEKING, /* its address (endpoint.h) */
  DLK_REDIS_OPENING, /* look-up and connect */
  DLK_REDIS_HANDSHAKE,
  DLK_REDIS_READY,
  DLK_REDIS_DRAINING, /* ready, but only waits for replies, then pauses */
  DLK_REDIS_STOPPED
};

/* When a TLS handshake gets no answer for so long, it may be that TLS is not
 * spoken there. */
#define DLK_REDIS_SPEECHLESS (250 * DLK_MS)
#define DLK_REDIS_IDLE_CLOSE (60 * DLK_SEC)
/* After such a silence a connection that only listens asks for a sign of
 * life. */
#define DLK_REDIS_SILENCE (5 * DLK_SEC)

/* What a connection remembers for it. */
struct dlk_redis_times {
  int64_t used;  /* when a request was written last; of a connection that only
                    listens: when something came last, or was asked for */
  bool asked;    /* it listens, and was asked for a sign of life */
  bool looked;   /* something seemed too late, and the loop ran once more */
  int64_t until; /* an attempt to connect goes on until then */
  bool sure;     /* whoever is there speaks what the URL says */
};

struct dlk_redis_moment {
  enum dlk_redis_conn_state state;
  int64_t at;     /* now */
  int64_t oldest; /* when the oldest unanswered request was sent, or -1 */
  int64_t io_timeout;
  bool listens; /* it carries messages */
  bool needed;  /* somebody holds or waits */
  bool wanted;  /* it is to stay although nothing is asked */
};

enum dlk_redis_deed {
  DLK_REDIS_SLEEP,      /* until `next` */
  DLK_REDIS_GIVE_UP,    /* `why` */
  DLK_REDIS_DOUBT,      /* what is spoken there, and sleep until `next` */
  DLK_REDIS_PROBE_LIFE, /* for a sign of life, and sleep until `next` */
  DLK_REDIS_CLOSE,      /* nobody uses it */
  DLK_REDIS_REOPEN,     /* the pause is over */
  DLK_REDIS_NOTHING
};

struct dlk_redis_due {
  enum dlk_redis_deed deed;
  int64_t next;
  const char *why;
};

struct dlk_redis_due dlk_redis_due(struct dlk_redis_times *t,
                                   const struct dlk_redis_moment *m);

/* How long to wait after so many attempts that failed, one after the other;
 * most: at most (0: a second); jitter: any number. */
int64_t dlk_redis_pause(unsigned failures, int64_t most, uint16_t jitter);

/* Whether the server may have closed the connection, so that it is to be looked
 * at before a write; quiet: for how long nothing was written. only_once: it is
 * not sent again if its answer is lost. */
bool dlk_redis_may_be_closed(int64_t quiet, bool only_once);

#endif
