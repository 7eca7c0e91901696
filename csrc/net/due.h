/* What is due on a connection when its one timer fires: a judgement of what
 * stands, without any effect. conn.c arms the timer, never moves it to later,
 * and does what is due. */
#ifndef DLK_NET_DUE_H
#define DLK_NET_DUE_H

#include <stdbool.h>
#include <stdint.h>

enum dlk_net_conn_state {
  DLK_NET_OFF,
  DLK_NET_PAUSE,   /* between two attempts */
  DLK_NET_SEEKING, /* its address (endpoint.h) */
  DLK_NET_OPENING, /* look-up and connect */
  DLK_NET_HANDSHAKE,
  DLK_NET_READY,
  DLK_NET_DRAINING, /* ready, but only waits for replies, then pauses */
  DLK_NET_STOPPED
};

#define DLK_NET_IDLE_CLOSE (60 * DLK_SEC)
/* After such a silence a connection that only listens asks for a sign of
 * life. */
#define DLK_NET_SILENCE (5 * DLK_SEC)

/* What a connection remembers for it. */
struct dlk_net_times {
  int64_t used;  /* when a request was written last; of a connection that only
                    listens: when something came last, or was asked for */
  bool asked;    /* it listens, and was asked for a sign of life */
  bool looked;   /* something seemed too late, and the loop ran once more */
  int64_t until; /* an attempt to connect goes on until then */
};

struct dlk_net_moment {
  enum dlk_net_conn_state state;
  int64_t at;     /* now */
  int64_t oldest; /* when the oldest unanswered request was sent, or -1 */
  int64_t io_timeout;
  bool listens; /* it carries messages */
  bool needed;  /* somebody holds or waits */
  bool wanted;  /* it is to stay although nothing is asked */
};

enum dlk_net_deed {
  DLK_NET_SLEEP,      /* until `next` */
  DLK_NET_GIVE_UP,    /* `why` */
  DLK_NET_PROBE_LIFE, /* for a sign of life, and sleep until `next` */
  DLK_NET_CLOSE,      /* nobody uses it */
  DLK_NET_REOPEN,     /* the pause is over */
  DLK_NET_NOTHING
};

struct dlk_net_due {
  enum dlk_net_deed deed;
  int64_t next;
  const char *why;
};

struct dlk_net_due dlk_net_due(struct dlk_net_times *t,
                               const struct dlk_net_moment *m);

/* How long to wait after so many attempts that failed, one after the other;
 * most: at most (0: a second); jitter: any number. */
int64_t dlk_net_pause(unsigned failures, int64_t most, uint16_t jitter);

/* Whether the server may have closed the connection, so that it is to be looked
 * at before a write; quiet: for how long nothing was written. only_once: it is
 * not sent again if its answer is lost. */
bool dlk_net_may_be_closed(int64_t quiet, bool only_once);

#endif
