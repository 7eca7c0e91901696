/* A session of Consul, and what is asked in it. */
#ifndef DLK_STORE_SESSION_CONSUL_LINK_H
#define DLK_STORE_SESSION_CONSUL_LINK_H

#include "core/map.h"
#include "store/session/asks/asks.h"
#include "store/session/consul/conn/http.h"
#include "store/session/consul/wire/txn.h"

/* Shared by a store's sessions. */
struct dlk_consul_client {
  struct dlk_conf conf;
  char *base;                /* the folder of all locks */
  char *texts[DLK_SS_TEXTS]; /* servers' words, kept for replies */
  struct dlk_list links;     /* open */
};

enum dlk_consul_state {
  DLK_CONSUL_OPENING,
  DLK_CONSUL_UP, /* the recipe may ask */
  DLK_CONSUL_AWAY,
  DLK_CONSUL_CLOSED,
  DLK_CONSUL_GONE
};

struct dlk_ss_link {
  struct dlk_http http;
  struct dlk_list in_client;
  struct dlk_consul_client *client;
  struct dlk_host *host;
  struct dlk_ss_events events;
  void *user, *owner;
  enum dlk_consul_state state;
  const char *cut; /* why it is AWAY, until that is told; else NULL */
  bool busy;       /* the host runs the loop for it */
  int64_t narrow;  /* until then the agent is asked for no connection */
  int64_t seconds;
  char session[40];             /* "": none yet */
  int64_t id;                   /* the same for the recipe */
  int64_t epoch;                /* driver.c, C1 */
  unsigned entries;             /* returns to the servers */
  int64_t pause;                /* before the next */
  unsigned turn;                /* of the token */
  int64_t seen;                 /* the highest index in any answer */
  int64_t ahead_min, ahead_max; /* ms, of the agent's clock to ours */
  struct dlk_http_call hello, probe;
  struct dlk_buf body; /* hello's */
  struct dlk_timer soon;
  struct dlk_post post;
  struct dlk_ss_asks asks;
  struct dlk_map folders; /* watch.c */
  struct dlk_list turns;  /* those whose query waits for its turn */
  size_t queries;
};

extern const struct dlk_ss_driver dlk_consul_driver; /* driver.c */

/* ---- link.c ---- */

void dlk_consul_busy(struct dlk_ss_link *l);
void dlk_consul_state(struct dlk_ss_link *l, enum dlk_consul_state state);
/* The session is over; nothing of l may be used afterwards. */
void dlk_consul_end(struct dlk_ss_link *l, enum dlk_ss_end end,
                    const char *text);
/* Its key: the epochs'. */
void dlk_consul_epoch_key(const struct dlk_ss_link *l, struct dlk_buf *out);
/* Nobody knows what became of what is asked: the session is AWAY, and all are
 * told so soon. */
void dlk_consul_cut(struct dlk_ss_link *l, const char *why);
/* Reads the token, for the calls to come. False: no memory. */
bool dlk_consul_token(struct dlk_ss_link *l);
/* The token was refused: the program may be asked for another. */
void dlk_consul_refused(struct dlk_ss_link *l, const char *text);
/* c was refused, and not done. True: there is another token than c's, with
 * which it is to be asked again. */
bool dlk_consul_retries(struct dlk_ss_link *l, const struct dlk_http_call *c);
/* The servers did not answer c. */
bool dlk_consul_silent(const struct dlk_http_call *c);
/* As cut, if c is silent. True: the session is AWAY. */
bool dlk_consul_lost(struct dlk_ss_link *l, const struct dlk_http_call *c);

/* ---- asks.c ---- */

extern const struct dlk_ss_asks_type dlk_consul_asks;
bool dlk_consul_send(struct dlk_ss_link *l, const struct dlk_ss_request *q,
                     dlk_ss_answer *answer, void *who, uint32_t tag);
/* Answers what is done, and begins what may. */
void dlk_consul_deliver(struct dlk_ss_link *l);
const char *dlk_consul_guard_error(void *client, const struct dlk_op *op);

/* ---- watch.c ---- */

/* What a read has shown. */
struct dlk_consul_sight {
  int64_t sent;
  int64_t seen;     /* l->seen then */
  int64_t modified; /* the highest of the entries */
  size_t count;
  bool dead; /* one of them is */
};

/* Tells of the first change of path (a node's, or a folder's names) after that.
 * False: no memory. */
bool dlk_consul_watch(struct dlk_ss_link *l, const char *path, bool folder,
                      const struct dlk_consul_sight *sight);
/* On a new connection. */
void dlk_consul_watches_renew(struct dlk_ss_link *l);
/* Their queries end; all: they themselves, too. */
void dlk_consul_watches_end(struct dlk_ss_link *l, bool all);

#endif
