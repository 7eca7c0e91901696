/* The sessions of a store: sessions.c opens, replaces and ends them. */
#ifndef DLK_STORE_SESSION_LIFE_SESSION_H
#define DLK_STORE_SESSION_LIFE_SESSION_H

#include "core/map.h"
#include "core/trace.h"
#include "store/session/life/member.h"

struct dlk_ss_session;

/* What is told of each session to the recipe that uses it. */
struct dlk_ss_session_hooks {
  size_t size; /* of session->data, zeroed */
  void (*opened)(struct dlk_ss_session *s);
  void (*connected)(struct dlk_ss_session *s); /* all members have resumed */
  void (*over)(struct dlk_ss_session *s);      /* perhaps more than once */
  /* The children of a watched lock. False: no memory. */
  bool (*listed)(struct dlk_ss_session *s, const struct dlk_ss_reply *r);
};

struct dlk_ss_sessions {
  struct dlk_host *host;
  const struct dlk_ss_driver *driver;
  void *client; /* the driver's */
  const struct dlk_ss_session_hooks *hooks;
  const struct dlk_conf *conf;
  int64_t timeout;              /* that is asked for */
  struct dlk_list all, closing; /* closing: struct dlk_ss_closing */
  struct dlk_ss_session *current;
  struct dlk_timer stop_timer;
  size_t links; /* open or closing */
  bool stopping;
  int slow_opens;
  int64_t backoff;
  char problem[160]; /* why there is no session; "" */
  bool shut;         /* it is that: a server closes new connections at once */
};

enum dlk_ss_state {
  DLK_SS_OPENING,
  DLK_SS_CONNECTED,
  DLK_SS_AWAY,  /* the library is looking for a server */
  DLK_SS_BROKEN /* given up; to be replaced */
};

struct dlk_ss_session {
  struct dlk_list link; /* in sessions->all */
  struct dlk_ss_sessions *sessions;
  struct dlk_ss_link *connection; /* NULL when BROKEN */
  struct dlk_ss_closing *closing; /* for its end */
  enum dlk_ss_state state;
  bool retired; /* takes nothing new; closed when empty */
  int64_t id;   /* as in dlk_ss_stat.owner */
  int64_t opened, timeout;
  struct dlk_timer timer;      /* opening, or not confirmed, for too long */
  struct dlk_timer tidy_timer; /* close if retired and empty */
  void *data;                  /* the recipe's */
  /* Members. */
  struct dlk_list nodes, guests;
  struct dlk_list zombies; /* contenders that only wait for answers */
  size_t node_count, uses[DLK_SS_USES];
  size_t wait_bytes; /* of the paths that members still may come to watch */
  /* chain.c */
  const struct dlk_ss_rule *rule;
  struct dlk_ss_proof proof;
  int64_t confirm_not_before;
  struct dlk_ss_member *confirm_member; /* whose node the last confirm names, */
  uint32_t confirm_named;               /* with this token */
  struct dlk_timer confirm_timer;       /* the next confirm */
  struct dlk_timer horizon_timer;       /* holds end */
  /* watch.c */
  struct dlk_map watches;
  size_t watch_bytes, own_watches;
  uint32_t lists; /* how often hooks->listed was called */
};

/* A session for a new contender; NULL when none can be opened. */
struct dlk_ss_session *dlk_ss_session_pick(struct dlk_ss_sessions *ss);
/* The same for who holds nothing in it: the chain does not matter. */
struct dlk_ss_session *dlk_ss_session_any(struct dlk_ss_sessions *ss);
/* Takes it out of use: it is closed once nothing of ours is left in it. */
void dlk_ss_session_retire(struct dlk_ss_session *s);
/* Ends all sessions; the host is told when the last link is gone. */
void dlk_ss_sessions_stop(struct dlk_ss_sessions *ss);

/* m becomes a member, with a node (to be) or as a guest. */
void dlk_ss_session_join(struct dlk_ss_session *s, struct dlk_ss_member *m);
void dlk_ss_session_visit(struct dlk_ss_session *s, struct dlk_ss_member *m);
/* m is none any more. False: answers are still to come, and it must stay in
 * memory until then (m->flying), or until it is discarded. */
bool dlk_ss_session_leave(struct dlk_ss_member *m);
/* m's node is now this to its session. */
void dlk_ss_session_use(struct dlk_ss_member *m, enum dlk_ss_use use);

static inline bool dlk_ss_session_connected(const struct dlk_ss_session *s) {
  return s && s->state == DLK_SS_CONNECTED;
}

static inline int64_t dlk_ss_session_now(const struct dlk_ss_session *s) {
  return s->sessions->host->now(s->sessions->host);
}

/* How many have a node that they want. */
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

#endif
