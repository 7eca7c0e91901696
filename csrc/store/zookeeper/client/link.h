/* A ZooKeeper session: requests go out, answers, watch events and the session's
 * own changes come in. handle.c puts it on the ZooKeeper C library; a
 * simulation can be one as well. What it promises stands in
 * store/session/driver.h (D1 to D4). */
#ifndef DLK_STORE_ZOOKEEPER_CLIENT_LINK_H
#define DLK_STORE_ZOOKEEPER_CLIENT_LINK_H

#include "store/session/driver.h"

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

/* A server cuts the connection of who sends more than its jute.maxbuffer (one
 * byte less than a MiB unless it is set), and so do servers among each other.
 * The connection is that of all leases of the session, and each repetition cuts
 * it again. So a request that could be as long is refused and not sent; it is
 * answered DLK_SS_FAILED. */
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

struct dlk_zk_link;

struct dlk_zk_conf {
  const char *hosts; /* "h1:2181,h2:2181" */
  const char *auth;  /* "user:password", or NULL */
  bool closed;       /* what it makes is for that user alone; needs auth */
  int64_t timeout;
};

struct dlk_zk_driver {
  /* These as those of struct dlk_ss_driver. */
  struct dlk_zk_link *(*open)(struct dlk_host *host,
                              const struct dlk_zk_conf *conf,
                              const struct dlk_ss_events *events, void *user,
                              void *owner);
  bool (*send)(struct dlk_zk_link *link, const struct dlk_zk_request *request,
               dlk_ss_answer *answer, void *who, uint32_t tag);
  void (*close)(struct dlk_zk_link *link);
  void (*abandon)(struct dlk_zk_link *link);
};

extern const struct dlk_zk_driver dlk_zk_session_driver;

#endif
