/* The sessions of a store. */
#ifndef DLK_STORE_SESSION_LIFE_SESSION_H
#define DLK_STORE_SESSION_LIFE_SESSION_H

#include "core/map.h"
#include "core/trace.h"
#include "store/session/life/member.h"
#include "store/session/life/proof.h"

struct dlk_ss_session;

struct dlk_ss_session_hooks {
  size_t size; /* of session->data, zeroed */
  void (*opened)(struct dlk_ss_session *s);
  void (*connected)(struct dlk_ss_session *s); /* all members have resumed */
  void (*over)(struct dlk_ss_session *s);      /* possibly twice */
  /* A watched lock's children. False: no memory. */
  bool (*listed)(struct dlk_ss_session *s, const struct dlk_ss_reply *r);
};

struct dlk_ss_sessions {
  struct dlk_host *host;
  const struct dlk_ss_driver *driver;
  void *client; /* the driver's */
  const struct dlk_ss_session_hooks *hooks;
  const struct dlk_conf *conf;
  int64_t timeout;              /* to ask for */
  struct dlk_list all, closing; /* closing: struct dlk_ss_closing */
  struct dlk_ss_session *current;
  struct dlk_timer stop_timer;
  size_t links; /* open or closing */
  bool stopping;
  int slow_opens;
  int64_t backoff;
  char problem[300];
  bool shut;    /* a server closes new connections at once */
  bool barred;  /* the system lets nobody connect */
  bool refused; /* `problem` is the sentence */
};

enum dlk_ss_state {
  DLK_SS_OPENING,
  DLK_SS_CONNECTED,
  DLK_SS_AWAY,  /* looks for a server */
  DLK_SS_BROKEN /* given up */
};

struct dlk_ss_session {
  struct dlk_list link; /* in sessions->all */
  struct dlk_ss_sessions *sessions;
  struct dlk_ss_link *connection; /* NULL when BROKEN */
  struct dlk_ss_closing *closing;
  enum dlk_ss_state state;
  bool retired; /* takes nothing new; closed when empty */
  int64_t id;   /* dlk_ss_stat.owner */
  int64_t opened, timeout;
  struct dlk_timer timer; /* opening, or unconfirmed, for too long */
  struct dlk_timer tidy_timer;
  void *data; /* the recipe's */
  struct dlk_list nodes, guests;
  struct dlk_list zombies; /* contenders that only wait for answers */
  size_t node_count, uses[DLK_SS_USES];
  size_t wait_bytes; /* of paths still to be watched */
  /* chain.c */
  struct dlk_ss_proof proof;
  int64_t confirm_not_before;
  struct dlk_ss_member *confirm_member; /* of the last confirm, */
  uint32_t confirm_named;               /* of this token */
  struct dlk_timer confirm_timer;
  struct dlk_timer horizon_timer;
  /* watch.c */
  struct dlk_map watches;
  size_t watch_bytes, own_watches;
  uint32_t lists; /* calls of hooks->listed */
};

/* For a new contender; NULL: none can be opened. */
struct dlk_ss_session *dlk_ss_session_pick(struct dlk_ss_sessions *ss);
/* For one that holds nothing: the chain does not matter. */
struct dlk_ss_session *dlk_ss_session_any(struct dlk_ss_sessions *ss);
/* s is closed once empty. */
void dlk_ss_session_retire(struct dlk_ss_session *s);
/* The host is told after the last link. */
void dlk_ss_sessions_stop(struct dlk_ss_sessions *ss);

/* With a node (to be), or as a guest. */
void dlk_ss_session_join(struct dlk_ss_session *s, struct dlk_ss_member *m);
void dlk_ss_session_visit(struct dlk_ss_session *s, struct dlk_ss_member *m);
/* False: m must stay in memory for its answers (m->flying) or until discarded.
 */
bool dlk_ss_session_leave(struct dlk_ss_member *m);
void dlk_ss_session_use(struct dlk_ss_member *m, enum dlk_ss_use use);

static inline bool dlk_ss_session_connected(const struct dlk_ss_session *s) {
  return s && s->state == DLK_SS_CONNECTED;
}

static inline int64_t dlk_ss_session_now(const struct dlk_ss_session *s) {
  return s->sessions->host->now(s->sessions->host);
}

static inline size_t dlk_ss_session_live(const struct dlk_ss_session *s) {
  size_t live = 0;
  for (int use = DLK_SS_USE_PARKED; use <= DLK_SS_USE_HELD; use++)
    live += s->uses[use];
  return live;
}

static inline bool dlk_ss_send(struct dlk_ss_session *s,
                               const struct dlk_ss_request *r,
                               dlk_ss_answer *answer, void *who, uint32_t tag) {
  return s->connection &&
         s->sessions->driver->send(s->connection, r, answer, who, tag);
}

/* ---- chain.c ---- */

/* Each once; others may join or leave meanwhile. */
void dlk_ss_session_tell(struct dlk_ss_session *s, enum dlk_ss_use use,
                         void (*tell)(struct dlk_ss_member *m));
void dlk_ss_session_tick(struct dlk_ss_session *s);
/* A write of the chain was answered. */
void dlk_ss_session_confirmed(struct dlk_ss_session *s, uint32_t token,
                              bool ok);
void dlk_ss_session_holds(struct dlk_ss_session *s);
/* Other sessions' holds may count for longer. */
void dlk_ss_session_freed(struct dlk_ss_session *s);
/* An answer about m's node no longer concerns m. */
void dlk_ss_session_unname(struct dlk_ss_member *m);
/* Tells the host until when all holds count. */
void dlk_ss_publish(struct dlk_ss_sessions *ss);
void dlk_ss_confirm_fired(struct dlk_timer *timer, int64_t now);
void dlk_ss_horizon_fired(struct dlk_timer *timer, int64_t now);

/* ---- watch.c ---- */

/* m watches path (list: its children) in its session; own: m's own node. False:
 * no memory. */
bool dlk_ss_watch_add(struct dlk_ss_member *m, const char *path, bool own,
                      bool list);
/* m watches nothing any more. */
void dlk_ss_watch_drop(struct dlk_ss_member *m);
/* A watched node: 0 unknown, 1 as its name says, 2 downgraded. */
int dlk_ss_watch_knows(struct dlk_ss_session *s, const char *path);

/* As dlk_ss_events. */
void dlk_ss_watch_event(void *session, enum dlk_ss_event event,
                        const char *path);
void dlk_ss_watch_free_all(struct dlk_ss_session *s);

#endif
