/* What a store with sessions and ordered contenders (dlk_ss_) gives the recipe
 * of this room.
 *
 * Definitions. A session lives on the servers; all that is bound to it ends
 * with it. A lock is a folder. A contender is a node in it, bound to a session.
 * A path is folder '/' contender. The driver adds a number of 10 digits to the
 * name of each contender that it creates; numbers of one lock rise in the order
 * of the creates (except `worn` ones). A majority decides each write.
 *
 * Invariants.
 * D1. Requests of one connection are answered in the order of sending. A LIST
 *     or READ sent after a write of the same session shows that write.
 * D2. Each request is answered once, or its session is closed before. A lost
 *     connection answers CUT, after `away`. CUT says nothing: a write may be
 *     done, even later. A LIST with `fresh`, sent on the next connection,
 *     decides it.
 * D3. An event comes before each answer that shows its cause. A watch tells
 *     once: of the first change after the answer that set it.
 * D4. A write of an ended session is never done. So a contender of ours exists
 *     only while its session does, and nobody else makes it.
 * D5. No hold counts past `horizon` of its session's proof. Until then no
 *     server has ended the session.
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
  DLK_SS_VERSION,   /* not done: the node was written since it was read */
  DLK_SS_NOAUTH,    /* not done; repeating does not help */
  DLK_SS_UNKNOWN,   /* the server does not know this request */
  DLK_SS_CUT,       /* D2 */
  DLK_SS_THROTTLED, /* not done: too much to do; treated as CUT */
  DLK_SS_MEMORY,    /* no memory here for the answer */
  DLK_SS_FAILED     /* anything else: reply->text */
};

enum dlk_ss_verb {
  DLK_SS_CREATE, /* a contender in our session. `attempt`: how many were
                    answered NONODE before; missing folders are made first.
                    Lost: a fresh LIST finds its name */
  DLK_SS_KEEP, /* a node of that very name in no session, if `own` exists. Lost:
                  sent again, EXISTS says done */
  DLK_SS_MARK, /* new data, if `version` still matches. Lost: read */
  DLK_SS_DELETE, /* a contender, or an empty folder. Lost: sent again, no name
                    comes twice */
  DLK_SS_READ,   /* data and stat. `watch`: of its change or end */
  DLK_SS_LIST, /* names in a folder. `watch`: of the next change. `fresh`: shows
                  all that any client was answered before; else the server may
                  lag */
  DLK_SS_COUNT,  /* stat.children */
  DLK_SS_PROVE,  /* a write that changes nothing: NONODE, or it exists (D4) */
  DLK_SS_CLOCK,  /* a write; stat.mtime_ms is the servers' time */
  DLK_SS_FOLDER, /* makes a lock's folder */
  DLK_SS_GUARD,  /* op->argv's write, if `own` exists; else NONODE. Lost: nobody
                    knows, not repeated. stat.version: what SET made; -1: none */
  DLK_SS_PING    /* any read */
};

struct dlk_ss_request {
  enum dlk_ss_verb verb;
  const char *path;
  const char *data;
  size_t len;
  int32_t version; /* MARK */
  unsigned attempt;
  bool watch, fresh;
  bool prune;      /* DELETE: its folder, too, if empty and kept otherwise */
  bool leads;      /* another one follows at once: answer both together */
  const char *own; /* KEEP, GUARD: the contender that must exist */
  const struct dlk_op *op; /* GUARD */
};

struct dlk_ss_stat {
  int64_t czxid; /* of a contender: its fence */
  int64_t ctime_ms, mtime_ms;
  int64_t owner; /* a contender's session */
  int32_t version, children;
};

#define DLK_SS_PARTS_MAX 4

/* Valid during the call. */
struct dlk_ss_reply {
  enum dlk_ss_rc rc;
  int64_t sent;
  const char *text; /* for people, when rc is not OK; outlives the reply */
  const char *path; /* CREATE: with the full name */
  const char *data; /* READ */
  size_t len;
  struct dlk_ss_stat stat; /* CREATE, READ, MARK, CLOCK, COUNT */
  char *const *names;      /* LIST */
  size_t count;
  /* The driver's own. */
  enum dlk_ss_rc part_rc[DLK_SS_PARTS_MAX];
  int32_t part_version[DLK_SS_PARTS_MAX];
};

typedef void dlk_ss_answer(void *who, uint32_t tag,
                           const struct dlk_ss_reply *reply);

enum dlk_ss_end {
  DLK_SS_END_EXPIRED,
  DLK_SS_END_DENIED, /* by the server */
  DLK_SS_END_BARRED, /* the system lets nobody connect; text: its words */
  DLK_SS_END_FAILED /* not opened, or an event was lost for want of memory */
};

enum dlk_ss_event { DLK_SS_DELETED, DLK_SS_CHANGED, DLK_SS_CHILD };

struct dlk_ss_link;

struct dlk_ss_events {
  /* Connected, first or again. timeout: as negotiated. */
  void (*connected)(void *user, int64_t session, int64_t timeout);
  void (*away)(void *user);
  /* Not connected yet: a server closes each new connection at once. */
  void (*shut)(void *user);
  /* The last call but `gone`. */
  void (*ended)(void *user, enum dlk_ss_end end, const char *text);
  void (*event)(void *user, enum dlk_ss_event event, const char *path);
  /* After close: the link calls no more. */
  void (*gone)(void *owner);
};

/* How long a session is known to live (D5). The rule owns the fields below
 * `horizon`. */
struct dlk_ss_proof {
  int64_t timeout; /* as negotiated */
  int64_t horizon; /* no hold counts past this */
  int64_t sent[2]; /* of the two writes answered last */
  int64_t due;     /* when the next may go; 0: at once */
  uint32_t flying; /* the write under way; 0: none */
  int64_t flying_sent;
  uint32_t last_token;
};

struct dlk_ss_rule {
  /* A fresh session, asked for at `sent`. */
  void (*start)(struct dlk_ss_proof *p, int64_t sent, int64_t timeout);
  /* The connection was lost or is new: promises stay, writes under way do not
   * count. */
  void (*restart)(struct dlk_ss_proof *p);
  /* When the next write is due; DLK_FOREVER: one is under way. */
  int64_t (*due)(const struct dlk_ss_proof *p);
  /* Call before a write (CREATE, DELETE, PROVE) is sent. A token if it counts
   * as the next of the chain; 0: not. */
  uint32_t (*sent)(struct dlk_ss_proof *p, int64_t now);
  /* Its answer came. ok: it was done. True: the horizon moved. */
  bool (*answered)(struct dlk_ss_proof *p, uint32_t token, bool ok,
                   int64_t now);
  /* A hold granted now outlasts the time that the chain needs to reach it. */
  bool (*sustains)(const struct dlk_ss_proof *p, int64_t now);
};

struct dlk_ss_driver {
  const char *name; /* for messages: "ZooKeeper" */
  const char *room; /* for the trace: "zookeeper" */
  /* What a refused user is told, with and without credentials; and when a
   * server closes new connections at once. */
  const char *denied_user, *denied_nobody, *shut;
  size_t watch_bytes; /* most bytes of watched paths a session */
  const struct dlk_ss_rule *rule;
  /* A number near the counter's end, which says nothing of the order. NULL: no
   * such numbers. */
  bool (*worn)(int32_t number);
  /* Opens a session in the background. client: the driver's own, shared by a
   * store's sessions. NULL: no memory or threads. user goes to the events,
   * owner to `gone`. */
  struct dlk_ss_link *(*open)(struct dlk_host *host, void *client,
                              int64_t timeout,
                              const struct dlk_ss_events *events, void *user,
                              void *owner);
  /* Queues a request; who and tag come back with the answer. False: no memory,
   * nothing sent, no answer. */
  bool (*send)(struct dlk_ss_link *link, const struct dlk_ss_request *request,
               dlk_ss_answer *answer, void *who, uint32_t tag);
  /* Ends the session in the background; only `gone` comes after this. */
  void (*close)(struct dlk_ss_link *link);
  /* After close: lets go of the host now. */
  void (*abandon)(struct dlk_ss_link *link);
  /* What is wrong with a GUARD's op->argv; NULL: nothing. */
  const char *(*guard_error)(void *client, const struct dlk_op *op);
  void (*free_client)(void *client);
};

#endif
