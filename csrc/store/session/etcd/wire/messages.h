/* etcd's messages (rpc.proto, kv.proto), as far as the store uses them. */
#ifndef DLK_STORE_SESSION_ETCD_WIRE_MESSAGES_H
#define DLK_STORE_SESSION_ETCD_WIRE_MESSAGES_H

#include "store/session/etcd/wire/proto.h"

struct dlk_etcd_bytes {
  const char *p;
  size_t n;
};

/* ---- requests ---- */

struct dlk_etcd_range {
  struct dlk_etcd_bytes key;
  bool folder;       /* all keys that begin with it */
  bool serializable; /* as the member has it: may lag behind the others */
  bool keys_only, count_only;
};

struct dlk_etcd_put {
  struct dlk_etcd_bytes key, value;
  int64_t lease;
  bool same_value, same_lease;
};

enum dlk_etcd_target { DLK_ETCD_CREATE = 1, DLK_ETCD_MOD };
enum dlk_etcd_branch { DLK_ETCD_THEN = 2, DLK_ETCD_ELSE };

void dlk_etcd_range(struct dlk_buf *b, const struct dlk_etcd_range *r);
/* Of a transaction; compares are equalities and come first. */
void dlk_etcd_if(struct dlk_buf *b, struct dlk_etcd_bytes key,
                 enum dlk_etcd_target target, int64_t value);
/* No key from `first` on that begins with `folder`. */
void dlk_etcd_if_none(struct dlk_buf *b, struct dlk_etcd_bytes first,
                      struct dlk_etcd_bytes folder);
void dlk_etcd_do_range(struct dlk_buf *b, enum dlk_etcd_branch branch,
                       const struct dlk_etcd_range *r);
void dlk_etcd_do_put(struct dlk_buf *b, const struct dlk_etcd_put *p);
/* below: also "key/…". */
void dlk_etcd_do_delete(struct dlk_buf *b, struct dlk_etcd_bytes key,
                        bool below);
/* id 0: the server's choice. */
void dlk_etcd_grant(struct dlk_buf *b, int64_t seconds, int64_t id);
/* LeaseKeepAlive, LeaseRevoke. */
void dlk_etcd_lease(struct dlk_buf *b, int64_t lease);
/* key begins a folder's names if `folder`. */
void dlk_etcd_watch(struct dlk_buf *b, struct dlk_etcd_bytes key, bool folder,
                    int64_t id, int64_t from);
void dlk_etcd_unwatch(struct dlk_buf *b, int64_t id);
void dlk_etcd_authenticate(struct dlk_buf *b, const char *user,
                           const char *password);

/* ---- answers: false: it is no such message ---- */

struct dlk_etcd_kv {
  struct dlk_etcd_bytes key, value;
  int64_t created, modified, lease;
};

struct dlk_etcd_ranged {
  int64_t revision, count;
  struct dlk_pb kvs; /* dlk_etcd_next_kv */
};

/* Of a transaction: its revision, and its first range or delete. */
struct dlk_etcd_did {
  bool succeeded;
  int64_t deleted;
  struct dlk_etcd_ranged range, second; /* .revision: the transaction's */
};

struct dlk_etcd_leased {
  int64_t id, ttl; /* seconds; 0 or less: it is over */
};

struct dlk_etcd_watched {
  int64_t id;
  bool canceled;
  struct dlk_pb events; /* dlk_etcd_next_event */
};

bool dlk_etcd_ranged(struct dlk_etcd_bytes m, struct dlk_etcd_ranged *out);
bool dlk_etcd_next_kv(struct dlk_pb *kvs, struct dlk_etcd_kv *out);
bool dlk_etcd_did(struct dlk_etcd_bytes m, struct dlk_etcd_did *out);
bool dlk_etcd_leased(struct dlk_etcd_bytes m, struct dlk_etcd_leased *out);
bool dlk_etcd_watched(struct dlk_etcd_bytes m, struct dlk_etcd_watched *out);
bool dlk_etcd_next_event(struct dlk_pb *events, bool *deleted);
bool dlk_etcd_token(struct dlk_etcd_bytes m, struct dlk_etcd_bytes *out);

#endif
