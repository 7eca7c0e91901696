/* Consul's transactions and answers in JSON, and the recipe's paths as keys. */
#ifndef DLK_STORE_SESSION_CONSUL_WIRE_TXN_H
#define DLK_STORE_SESSION_CONSUL_WIRE_TXN_H

#include <jansson.h>

#include "core/buf.h"

/* A transaction takes so many. */
#define DLK_CONSUL_OPS 64

struct dlk_consul_op {
  const char *verb;
  const struct dlk_buf *key;
  const char *value;
  size_t len;
  const char *session; /* or NULL */
  int64_t index;       /* 0: none */
};

/* Adds it to an array, which ends with a ']'. False: the key is no UTF-8. */
bool dlk_consul_op(struct dlk_buf *body, const struct dlk_consul_op *op);

struct dlk_consul_entry {
  const char *key, *session; /* "": of none */
  const char *value;         /* for dlk_consul_value */
  int64_t created, modified;
};

struct dlk_consul_answer {
  json_t *root;
  struct dlk_consul_entry *at;
  size_t count;
  int failed;      /* number of the op that failed first; -1: none */
  const char *why; /* of that one */
};

/* A transaction's results, or the entries, or keys, of a GET; "": none. False:
 * it is something else, or there is no memory. */
bool dlk_consul_read(const struct dlk_buf *body, struct dlk_consul_answer *out);
void dlk_consul_free(struct dlk_consul_answer *a);
/* Appends its bytes. */
void dlk_consul_value(const struct dlk_consul_entry *e, struct dlk_buf *out);

/* Appends the key of a node, or the prefix of a folder. */
void dlk_consul_key(struct dlk_buf *out, const char *path);
void dlk_consul_prefix(struct dlk_buf *out, const char *path);
/* Appends, NUL-ended, a node's name, and a lock's. */
void dlk_consul_name(struct dlk_buf *out, const char *rest, int64_t created);
void dlk_consul_lock(struct dlk_buf *out, const char *rest, size_t n);
/* Appends what ends a contender's name, with its NUL. */
void dlk_consul_number(struct dlk_buf *out, int64_t created);

#endif
