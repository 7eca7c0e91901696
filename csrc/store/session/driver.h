/* A ZooKeeper session as the recipe sees it: requests go out, answers, watch
 * events and the session's own changes come in. handle.c puts it on the
 * ZooKeeper C library; a simulation can be one as well.
 *
 * Promises the recipe stands on: requests of one connection are answered in
 * the order they were sent; a watch event comes before any answer that shows
 * what it tells of; a request that was under way when the connection was lost
 * is answered DLK_ZK_CUT after `away` was reported. Everything is called by
 * the loop's owner, which is called back as well, and never from inside `send`.
 */
#ifndef DLK_STORE_SESSION_DRIVER_H
#define DLK_STORE_SESSION_DRIVER_H

#include "store/store.h"

enum dlk_zk_rc {
  DLK_ZK_OK,
  DLK_ZK_NONODE,
  DLK_ZK_EXISTS,
  DLK_ZK_NOTEMPTY,
  DLK_ZK_VERSION, /* the node's version is another one */
  DLK_ZK_NOAUTH,
  DLK_ZK_UNKNOWN,   /* the server does not know such requests */
  DLK_ZK_CUT,       /* connection lost or not there: outcome unknown */
  DLK_ZK_THROTTLED, /* not done, for there is too much to do; else as CUT */
  DLK_ZK_MEMORY,    /* we had no memory for the answer */
  DLK_ZK_FAILED     /* anything else; reply->text says what */
};

enum dlk_zk_verb {
  DLK_ZK_CREATE,
  DLK_ZK_DELETE,
  DLK_ZK_SET,
  DLK_ZK_GET,
  DLK_ZK_EXISTS_VERB,
  DLK_ZK_CHILDREN,
  DLK_ZK_SYNC,
  DLK_ZK_CHECK, /* in a multi only */
  DLK_ZK_MULTI
};

enum dlk_zk_mode {
  DLK_ZK_PERSISTENT,
  DLK_ZK_CONTAINER,
  DLK_ZK_EPHEMERAL_SEQUENTIAL
};

/* For the trace. */
static inline const char *dlk_zk_verb_word(enum dlk_zk_verb verb) {
  static const char *const words[] = {"create", "delete", "set",
                                      "get",    "exists", "children",
                                      "sync",   "check",  "multi"};
  return words[verb];
}

#define DLK_ZK_PARTS_MAX 4

/* A server cuts the connection of who sends more than its jute.maxbuffer (one
 * byte less than a MiB unless it is set), and so do servers among each other.
 * The connection is that of all leases of the session, and each repetition cuts
 * it again. So a request that could be as long is refused and not sent; it is
 * answered DLK_ZK_FAILED. */
#define DLK_ZK_REQUEST_MAX 1047000

struct dlk_zk_request {
  enum dlk_zk_verb verb;
  const char *path; /* CREATE: the sequence number is appended */
  const char *data;
  size_t len;
  enum dlk_zk_mode mode; /* CREATE */
  int32_t version;       /* DELETE, SET, CHECK; -1: any */
  bool watch;            /* GET, CHILDREN */
  bool leads; /* another one is sent at once: answered together with it */
  const struct dlk_zk_request *parts; /* MULTI: CHECK, SET, CREATE, DELETE */
  size_t part_count;
};

/* Whose node it is about, for the trace; of a MULTI the first one's. */
static inline const char *dlk_zk_request_path(const struct dlk_zk_request *r) {
  return r->path || r->part_count == 0 ? r->path : r->parts[0].path;
}

struct dlk_zk_stat {
  int64_t czxid, ctime_ms, mtime_ms,
      owner; /* owner: the session of an ephemeral */
  int32_t version, children;
};

/* Valid during the call only. */
struct dlk_zk_reply {
  enum dlk_zk_rc rc;
  int64_t sent;     /* when the request was handed over */
  const char *text; /* for people, when rc is not OK; lasts */
  const char *path; /* CREATE: the node's name */
  const char *data; /* GET */
  size_t len;
  struct dlk_zk_stat stat; /* CREATE, GET, SET, EXISTS */
  char *const *names;      /* CHILDREN */
  size_t count;
  enum dlk_zk_rc part_rc[DLK_ZK_PARTS_MAX]; /* MULTI */
  int32_t part_version[DLK_ZK_PARTS_MAX];   /* MULTI: SET's new version */
};

typedef void dlk_zk_answer(void *who, uint32_t tag,
                           const struct dlk_zk_reply *reply);

enum dlk_zk_end {
  DLK_ZK_END_EXPIRED, /* the servers ended the session */
  DLK_ZK_END_DENIED,  /* authentication failed */
  DLK_ZK_END_FAILED   /* could not be opened, or (no memory) not be told of an
                         event; text says why */
};

enum dlk_zk_event { DLK_ZK_DELETED, DLK_ZK_CHANGED, DLK_ZK_CHILD };

struct dlk_zk_link;

struct dlk_zk_events {
  /* Connected, for the first time or again. timeout: as negotiated. */
  void (*connected)(void *user, int64_t session, int64_t timeout);
  void (*away)(void *user);
  /* Not connected yet, for a server closes each new connection at once. */
  void (*shut)(void *user);
  /* The last call for this link but `gone`. */
  void (*ended)(void *user, enum dlk_zk_end end, const char *text);
  void (*event)(void *user, enum dlk_zk_event event, const char *path);
  /* After close: nothing of the link is left that could call. */
  void (*gone)(void *owner, struct dlk_zk_link *link);
};

struct dlk_zk_conf {
  const char *hosts; /* "h1:2181,h2:2181" */
  const char *auth;  /* "user:password", or NULL */
  bool closed;       /* what it makes is for that user alone; needs auth */
  int64_t timeout;
};

struct dlk_zk_driver {
  /* NULL when out of memory or threads. user goes to the events, owner to
   * `gone`. */
  struct dlk_zk_link *(*open)(struct dlk_host *host,
                              const struct dlk_zk_conf *conf,
                              const struct dlk_zk_events *events, void *user,
                              void *owner);
  /* Queues a request; who and tag come back with the answer. False: out of
   * memory, nothing was sent and nothing will be answered. */
  bool (*send)(struct dlk_zk_link *link, const struct dlk_zk_request *request,
               dlk_zk_answer *answer, void *who, uint32_t tag);
  /* Ends the session in the background. No event and no answer comes after
   * this, only `gone`. */
  void (*close)(struct dlk_zk_link *link);
  /* After close: let go of the host now, wherever the closing stands. */
  void (*abandon)(struct dlk_zk_link *link);
};

extern const struct dlk_zk_driver dlk_zk_session_driver;

#endif
