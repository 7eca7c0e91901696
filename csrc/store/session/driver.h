/* What a store with sessions and ordered contenders gives the recipe of this
 * room. zookeeper/driver.c is one on ZooKeeper; etcd (a lease, keys in the
 * order of their revisions, transactions) and Consul (a session, keys in the
 * order of their CreateIndex, transactions) fit it as well.
 *
 * Definitions. A session lives on the servers, and everything that is bound to
 * it ends with it. A lock is a folder; a contender is a node in it that is
 * bound to a session. A path is the folder, '/', and the contender's name. The
 * driver adds a number of 10 digits to the name of each contender that it
 * makes, and shows it so from then on. Numbers of one lock rise in the order of
 * the creates (`worn`: but for those). A write is decided by a majority.
 *
 * Invariants that the recipe stands on.
 * D1. Requests of one connection are answered in the order of their sending. A
 *     LIST or a READ that was sent after a write of the same session shows that
 *     write.
 * D2. Each request is answered once, or its session is closed before. One that
 *     was under way when the connection was lost is answered CUT, after `away`.
 *     CUT says nothing: a write may be done, also later. It is decided when a
 *     LIST with `fresh` is answered that was sent on the next connection.
 * D3. An event comes before each answer that shows what it tells of. A watch
 *     tells once: of the first change after the answer that set it.
 * D4. A write of a session that the servers ended is never done. So a contender
 *     of ours is there only while its session is, and nobody else makes it.
 * D5. No hold counts past `horizon` of its session's proof. Until then no
 *     server has ended the session.
 * D6. The fence of a contender is above those of all that were created before,
 *     in any lock.
 *
 * All functions are called by the loop's owner, which is called back as well,
 * and never from inside `send`. */
#ifndef DLK_STORE_SESSION_DRIVER_H
#define DLK_STORE_SESSION_DRIVER_H

#include "store/store.h"

/* What became of a request. */
enum dlk_ss_rc {
  DLK_SS_OK,
  DLK_SS_NONODE,    /* the node, or the folder above it, is not there */
  DLK_SS_EXISTS,    /* it is there already */
  DLK_SS_VERSION,   /* not done: the node was written since it was read */
  DLK_SS_NOAUTH,    /* not done, and the next one would not be either */
  DLK_SS_UNKNOWN,   /* the server does not know such requests */
  DLK_SS_CUT,       /* D2 */
  DLK_SS_THROTTLED, /* not done, for there is too much to do; else as CUT */
  DLK_SS_MEMORY,    /* we had no memory for the answer */
  DLK_SS_FAILED     /* anything else; reply->text says what */
};

enum dlk_ss_verb {
  DLK_SS_CREATE, /* a contender, in our session. `attempt`: how many were
                         answered NONODE before; what is missing above is made
                         first. Lost: found by its name in a fresh LIST (D2) */
  DLK_SS_KEEP,   /* a node of that very name, in no session, if `own` is
                         there. Lost: sent again, and EXISTS says it is done */
  DLK_SS_MARK,   /* other data, if it still has `version`. Lost: read */
  DLK_SS_DELETE, /* a contender, or an empty folder. Lost: sent again, for
                         no name comes twice */
  DLK_SS_READ,   /* data and stat. `watch`: tells of its change or end */
  DLK_SS_LIST,   /* names in a folder. `watch`: tells of the next change.
                         `fresh`: shows all that any client was answered before;
                         else as our server has it, which may be behind */
  DLK_SS_COUNT,  /* stat.children: whether a folder has any */
  DLK_SS_PROVE,  /* a write that changes nothing: NONODE, or it is there
                         (D4). Lost: says nothing about either */
  DLK_SS_CLOCK,  /* a write whose stat.mtime_ms is the servers' time */
  DLK_SS_FOLDER, /* makes a lock's folder, to watch it */
  DLK_SS_GUARD,  /* what op->argv asks for, if `own` is there: NONODE, and
                         nothing was written. Lost: nobody knows, not repeated.
                         stat.version: of what was set; -1: none */
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
  bool prune; /* DELETE: its folder, too, if it is empty and stays otherwise */
  bool leads; /* another one is sent at once: answered together */
  const char *own;         /* KEEP, GUARD: the contender that has to be there */
  const struct dlk_op *op; /* GUARD */
};

struct dlk_ss_stat {
  int64_t czxid; /* of a contender: its fence */
  int64_t ctime_ms, mtime_ms;
  int64_t owner; /* the session of a contender */
  int32_t version, children;
};

#define DLK_SS_PARTS_MAX 4

/* Valid during the call only. */
struct dlk_ss_reply {
  enum dlk_ss_rc rc;
  int64_t sent;     /* when the request was handed over */
  const char *text; /* for people, when rc is not OK; lasts */
  const char *path; /* CREATE: with the node's name */
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
  DLK_SS_END_EXPIRED, /* the servers ended the session */
  DLK_SS_END_DENIED,  /* authentication failed */
  DLK_SS_END_FAILED   /* could not be opened, or (no memory) not be told of an
                         event; text says why */
};

enum dlk_ss_event { DLK_SS_DELETED, DLK_SS_CHANGED, DLK_SS_CHILD };

struct dlk_ss_link;

struct dlk_ss_events {
  /* Connected, for the first time or again. timeout: as negotiated. */
  void (*connected)(void *user, int64_t session, int64_t timeout);
  void (*away)(void *user);
  /* Not connected yet, for a server closes each new connection at once. */
  void (*shut)(void *user);
  /* The last call for this link but `gone`. */
  void (*ended)(void *user, enum dlk_ss_end end, const char *text);
  void (*event)(void *user, enum dlk_ss_event event, const char *path);
  /* After close: nothing of the link is left that could call. */
  void (*gone)(void *owner);
};

/* How long a session is known to live (D5). Its fields but `horizon` and
 * `timeout` are for the driver's rule. */
struct dlk_ss_proof {
  int64_t timeout; /* of the session, as negotiated */
  int64_t horizon; /* no hold of the session counts past this time */
  int64_t sent[2]; /* of the two writes that were answered last */
  int64_t due;     /* of the next; 0: at once */
  uint32_t flying; /* token of the write under way, 0: none */
  int64_t flying_sent;
  uint32_t last_token;
};

struct dlk_ss_rule {
  /* A fresh session, which was asked for at `sent`. */
  void (*start)(struct dlk_ss_proof *p, int64_t sent, int64_t timeout);
  /* The connection was lost, or is new: what was promised before stays, and
   * what is under way will not count. */
  void (*restart)(struct dlk_ss_proof *p);
  /* When the next write is due; DLK_FOREVER while one is under way. */
  int64_t (*due)(const struct dlk_ss_proof *p);
  /* A write (CREATE, DELETE, PROVE) is about to be sent at `now`. A token if it
   * counts as the next of the chain, 0 if not. */
  uint32_t (*sent)(struct dlk_ss_proof *p, int64_t now);
  /* Its answer came at `now`. ok: it was done. True when the horizon moved. */
  bool (*answered)(struct dlk_ss_proof *p, uint32_t token, bool ok,
                   int64_t now);
  /* A hold granted now would outlast the time the chain needs to reach it. */
  bool (*sustains)(const struct dlk_ss_proof *p, int64_t now);
};

struct dlk_ss_driver {
  const char *name; /* for messages: "ZooKeeper" */
  const char *room; /* for the trace: "zookeeper" */
  /* What a user is told who is refused access, with and without credentials;
   * and when a server closes each new connection at once. */
  const char *denied_user, *denied_nobody, *shut;
  size_t watch_bytes; /* so much of watched paths is enough for one session */
  const struct dlk_ss_rule *rule;
  /* A number near where numbers begin anew, or stay as they are: it says
   * nothing of the order. NULL: there are none. */
  bool (*worn)(int32_t number);
  /* Opens a session in the background. client: the driver's own, for all
   * sessions of a store. NULL when out of memory or threads. user goes to the
   * events, owner to `gone`. */
  struct dlk_ss_link *(*open)(struct dlk_host *host, void *client,
                              int64_t timeout,
                              const struct dlk_ss_events *events, void *user,
                              void *owner);
  /* Queues a request; who and tag come back with the answer. False: out of
   * memory, nothing was sent and nothing will be answered. */
  bool (*send)(struct dlk_ss_link *link, const struct dlk_ss_request *request,
               dlk_ss_answer *answer, void *who, uint32_t tag);
  /* Ends the session in the background. No event and no answer comes after
   * this, only `gone`. */
  void (*close)(struct dlk_ss_link *link);
  /* After close: let go of the host now, wherever the closing stands. */
  void (*abandon)(struct dlk_ss_link *link);
  /* What is wrong with op->argv of a GUARD; NULL: nothing. */
  const char *(*guard_error)(void *client, const struct dlk_op *op);
  void (*free_client)(void *client);
};

#endif
