/* What a store with sessions and ordered contenders (dlk_ss_) asks of its
 * servers.
 *
 * Definitions. A session lives on the servers; what is bound to it ends with
 * it. A lock is a folder. A contender is a node in it, bound to a session. A
 * path is folder '/' contender. The driver appends a number to the name of each
 * contender (format/names.c); numbers of one lock rise in the order of the
 * creates (except `worn` ones). A majority decides each write.
 *
 * Invariants.
 * D1. A connection's requests are answered in order. A LIST or READ sent after
 *     a write of the same session shows it.
 * D2. Each request is answered once, or its session is closed before. A lost
 *     connection answers CUT, after `away`: a write may be done, even later. A
 *     `fresh` LIST, sent on the next connection, decides it.
 * D3. An event comes before each answer that shows its cause. A watch tells
 *     once: of the first change after the answer that set it.
 * D4. No write of an ended session is done. So a contender of ours exists only
 *     while its session does.
 * D5. No hold counts past its session's `horizon`. Until then no server has
 *     ended the session.
 * D6. A contender's fence exceeds those of all created before, in any lock.
 *
 * The loop's owner calls all functions and is called back, never from inside
 * `send`. */
#ifndef DLK_STORE_SESSION_DRIVER_H
#define DLK_STORE_SESSION_DRIVER_H

#include "store/store.h"

enum dlk_ss_rc {
  DLK_SS_OK,
  DLK_SS_NONODE, /* no such node or folder */
  DLK_SS_EXISTS,
  DLK_SS_VERSION,   /* not done: written since it was read */
  DLK_SS_UNBOUND,   /* PROVE: it is there, but not this session's */
  DLK_SS_NOAUTH,    /* not done, now or later */
  DLK_SS_UNKNOWN,   /* an unknown request */
  DLK_SS_CUT,       /* D2 */
  DLK_SS_THROTTLED, /* not done: too much to do; treated as CUT */
  DLK_SS_MEMORY,    /* no memory here for the answer */
  DLK_SS_FAILED     /* anything else: reply->text */
};

enum dlk_ss_verb {
  DLK_SS_CREATE, /* a contender. `attempt`: how many were answered NONODE
                    before; missing folders are made. Lost: a fresh LIST finds
                    its name */
  DLK_SS_KEEP, /* a node of that very name in no session, if `own` exists. Lost:
                  sent again, EXISTS says done */
  DLK_SS_MARK, /* new data, if `version` still matches. Lost: read */
  DLK_SS_DELETE, /* a contender, or an empty folder. Lost: sent again */
  DLK_SS_READ,   /* data and stat. `watch`: of its change or end */
  DLK_SS_LIST,   /* names in a folder. `watch`: of the next change. `fresh`: no
                    older than any answer yet; else the server may lag */
  DLK_SS_COUNT,  /* stat.children */
  DLK_SS_PROVE,  /* changes nothing: NONODE, UNBOUND, or it is ours (D4) */
  DLK_SS_CLOCK,  /* a write; stat.mtime_ms is the servers' time */
  DLK_SS_FOLDER,
  DLK_SS_GUARD, /* op->argv's write, if `own` exists. Lost: not repeated.
                   stat.version: what SET made; -1: none */
  DLK_SS_PING,  /* any read */
  /* If `portable`. A detached node is bound to itself for `ms`, and beside it
   * is a mark with `data`, which PROLONG replaces and the last two read. */
  DLK_SS_DETACH,  /* stat.version: the mark's; data: the node's. Lost:
                     sent again */
  DLK_SS_PROLONG, /* of what DETACHED gave for `version`, else NONODE. Lost:
                     read again */
  DLK_SS_ATTACH, /* to this session, of the mark's `version`, else NONODE; so is
                    the one below. `data`, if any, becomes the node's, unless it
                    was written since `seen`: VERSION. Lost: sent again,
                    `attempt`: if the node is there, it was done */
  DLK_SS_DETACHED /* stat.version: another one after each PROLONG */
};

struct dlk_ss_request {
  enum dlk_ss_verb verb;
  const char *path;
  const char *data;
  size_t len;
  int64_t version; /* MARK */
  int64_t seen;    /* ATTACH: the node's version; 0: it was not there */
  unsigned attempt;
  int64_t ms; /* DETACH, PROLONG */
  bool watch, fresh;
  bool prune;      /* DELETE: its folder, too, if empty and kept otherwise */
  bool leads;      /* another follows at once: answer both together */
  const char *own; /* KEEP, GUARD: must exist */
  const struct dlk_op *op; /* GUARD */
};

struct dlk_ss_stat {
  int64_t fence; /* a contender's fence */
  int64_t ctime_ms, mtime_ms;
  int64_t unsure_ms; /* both may be behind by that */
  int64_t owner;     /* a contender's session */
  int64_t version, children;
};

#define DLK_SS_PARTS_MAX 4

/* Valid during the call. */
struct dlk_ss_reply {
  enum dlk_ss_rc rc;
  int64_t sent;
  const char *text; /* for people, unless OK; outlives the reply */
  const char *path; /* CREATE: with the full name */
  const char *data; /* READ */
  size_t len;
  struct dlk_ss_stat stat; /* CREATE, READ, MARK, CLOCK, COUNT */
  char *const *names;      /* LIST */
  size_t count;
  /* The driver's. */
  enum dlk_ss_rc part_rc[DLK_SS_PARTS_MAX];
  int32_t part_version[DLK_SS_PARTS_MAX];
};

typedef void dlk_ss_answer(void *who, uint32_t tag,
                           const struct dlk_ss_reply *reply);

enum dlk_ss_end {
  DLK_SS_END_EXPIRED,
  DLK_SS_END_DENIED,  /* by the server */
  DLK_SS_END_BARRED,  /* the system lets nobody connect; text: its words */
  DLK_SS_END_REFUSED, /* for good; text: the whole sentence */
  DLK_SS_END_INVALID, /* as that: it is an option's fault */
  DLK_SS_END_FAILED   /* not opened, or no memory for an event */
};

enum dlk_ss_event { DLK_SS_DELETED, DLK_SS_CHANGED, DLK_SS_CHILD };

struct dlk_ss_link;

struct dlk_ss_events {
  /* Connected, first or again. timeout: as negotiated. */
  void (*connected)(void *user, int64_t session, int64_t timeout);
  /* Not connected any more, or still not. why: for people. */
  void (*away)(void *user, const char *why);
  /* Not connected: a server closes each new connection at once. */
  void (*shut)(void *user);
  /* The last call but `gone`. */
  void (*ended)(void *user, enum dlk_ss_end end, const char *text);
  void (*event)(void *user, enum dlk_ss_event event, const char *path);
  /* After close: the link calls no more. */
  void (*gone)(void *owner);
};

/* What proves that a session lives (D5): a PROVE, and other writes. The answer
 * to proof k shows that the servers counted the whole timeout anew after proof
 * k - lag was sent. The proofs before a connection's first two are the last one
 * answered on an earlier connection; in a fresh session, its opening. */
struct dlk_ss_rule {
  unsigned lag; /* 0, 1 or 2 */
  bool writes;  /* CREATE and DELETE are proofs, too */
};

struct dlk_ss_driver {
  const char *name; /* for messages: "ZooKeeper" */
  const char *room; /* for the trace: "zookeeper" */
  /* What a refused user is told, with and without credentials; and at `shut`,
   * which ZooKeeper's link alone calls. */
  const char *denied_user, *denied_nobody, *shut;
  size_t watch_bytes; /* most bytes of watched paths a session */
  const struct dlk_ss_rule *rule;
  bool portable; /* and no node of ours is there that nobody claims: D2 holds */
  /* Too near the counter's end to tell the order. NULL: there are none. */
  bool (*worn)(int64_t number);
  /* In the background. client: the driver's, shared by a store's sessions.
   * NULL: no memory or threads. user goes to the events, owner to `gone`. */
  struct dlk_ss_link *(*open)(struct dlk_host *host, void *client,
                              int64_t timeout,
                              const struct dlk_ss_events *events, void *user,
                              void *owner);
  /* False: no memory, nothing was sent, no answer. */
  bool (*send)(struct dlk_ss_link *link, const struct dlk_ss_request *request,
               dlk_ss_answer *answer, void *who, uint32_t tag);
  /* Ends the session in the background; only `gone` follows. */
  void (*close)(struct dlk_ss_link *link);
  /* After close: lets go of the host now. */
  void (*abandon)(struct dlk_ss_link *link);
  /* What is wrong with a GUARD's op->argv; NULL: nothing. */
  const char *(*guard_error)(void *client, const struct dlk_op *op);
  void (*free_client)(void *client);
};

#endif
