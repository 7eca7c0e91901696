/* A link on libzookeeper; handle.c has requests, threads, life. */
#ifndef DLK_STORE_ZOOKEEPER_CLIENT_COMPLETIONS_H
#define DLK_STORE_ZOOKEEPER_CLIENT_COMPLETIONS_H

#include <pthread.h>
#include <stdatomic.h>
#include <zookeeper/zookeeper.h>

#include "store/zookeeper/client/codes.h"

struct dlk_zk_link {
  pthread_mutex_t lock;
  pthread_cond_t wake;
  atomic_int refs;
  /* Constant after open. */
  const struct dlk_ss_events *events;
  void *user, *owner;
  char *hosts, *auth; /* auth: wiped once handed over */
  bool closed;
  int64_t timeout_ms;
  zhandle_t *zh; /* [lock] until the loop's owner saw it */
  /* [lock] */
  struct dlk_host *host; /* NULL once abandoned */
  struct dlk_list flying, ready;
  bool posted, closing, through, memory_failed;
  bool seen;
  bool shut; /* a server closes new connections at once */
  int open_error;
  /* The loop's owner's. */
  struct dlk_post post;
  bool muted, told_gone;
  char odd[DLK_ZK_ODD_MAX]; /* text of an unknown code */
};

enum dlk_zk_item { DLK_ZK_ITEM_ANSWER, DLK_ZK_ITEM_STATE, DLK_ZK_ITEM_EVENT };

/* A request under way, a state or an event. */
struct dlk_zk_completion {
  struct dlk_list link; /* flying, then ready */
  struct dlk_zk_link *owner;
  enum dlk_zk_item item;
  dlk_ss_answer *answer;
  void *who;
  uint32_t tag;
  int64_t sent;
  enum dlk_zk_verb verb;
  const char *path; /* for the trace, in text */
  bool leads;
  int rc;
  struct dlk_ss_stat stat;
  char *data; /* GET's, or a block of names */
  size_t len;
  size_t count;
  size_t part_count;
  zoo_op_result_t part[DLK_SS_PARTS_MAX];
  struct Stat part_stat[DLK_SS_PARTS_MAX];
  int kind; /* of a state or event */
  int64_t session, timeout;
  size_t room;
  char text[]; /* CREATE's name or an event's path */
};

/* [lock] */
void dlk_zk_link_kick(struct dlk_zk_link *link);
void dlk_zk_link_run(struct dlk_post *post);
/* Any thread. The last reference frees it. */
void dlk_zk_link_unref(struct dlk_zk_link *link);

/* In flying; NULL: no memory. */
struct dlk_zk_completion *
dlk_zk_completion_new(struct dlk_zk_link *link,
                      const struct dlk_zk_request *request);
/* Any thread. Its answer has come. */
void dlk_zk_completion_ready(struct dlk_zk_completion *f, int rc);
/* Frees what was never answered or delivered. */
void dlk_zk_completions_free(struct dlk_zk_link *link);

void dlk_zk_on_watch(zhandle_t *zh, int type, int state, const char *path,
                     void *context);
void dlk_zk_on_void(int rc, const void *data);
void dlk_zk_on_stat(int rc, const struct Stat *stat, const void *data);
void dlk_zk_on_data(int rc, const char *value, int len, const struct Stat *stat,
                    const void *data);
void dlk_zk_on_names(int rc, const struct String_vector *names,
                     const void *data);
void dlk_zk_on_string(int rc, const char *value, const void *data);
void dlk_zk_on_created(int rc, const char *value, const struct Stat *stat,
                       const void *data);

#endif
