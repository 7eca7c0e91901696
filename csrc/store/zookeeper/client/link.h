/* A ZooKeeper session: requests, answers, events, on libzookeeper (handle.c) or
 * in a simulation. It keeps D1 to D4 (store/session/driver.h). */
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

static inline const char *dlk_zk_verb_word(enum dlk_zk_verb verb) {
  static const char *const words[] = {"create", "delete", "set",
                                      "get",    "exists", "children",
                                      "sync",   "check",  "multi"};
  return words[verb];
}

/* Servers cut connections at requests over jute.maxbuffer (1 MiB - 1 by
 * default). The connection carries all leases of the session, so such a request
 * is not sent but answered DLK_SS_FAILED. */
#define DLK_ZK_REQUEST_MAX 1047000

struct dlk_zk_request {
  enum dlk_zk_verb verb;
  const char *path; /* CREATE: without the number */
  const char *data;
  size_t len;
  enum dlk_zk_mode mode; /* CREATE */
  int32_t version;       /* DELETE, SET, CHECK; -1: any */
  bool watch;            /* GET, CHILDREN */
  bool leads;            /* as in dlk_ss_request */
  const struct dlk_zk_request *parts;
  size_t part_count;
};

/* For the trace; a MULTI's first. */
static inline const char *dlk_zk_request_path(const struct dlk_zk_request *r) {
  return r->path || r->part_count == 0 ? r->path : r->parts[0].path;
}

struct dlk_zk_link;

struct dlk_zk_conf {
  const char *hosts;
  const char *auth;
  bool closed; /* needs auth */
  int64_t timeout;
};

/* As in struct dlk_ss_driver. */
struct dlk_zk_link *dlk_zk_link_open(struct dlk_host *host,
                                     const struct dlk_zk_conf *conf,
                                     const struct dlk_ss_events *events,
                                     void *user, void *owner);
bool dlk_zk_link_send(struct dlk_zk_link *link,
                      const struct dlk_zk_request *request,
                      dlk_ss_answer *answer, void *who, uint32_t tag);
void dlk_zk_link_close(struct dlk_zk_link *link);
void dlk_zk_link_abandon(struct dlk_zk_link *link);

#endif
