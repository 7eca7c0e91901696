/* The recipe's paths (store/session/format/names.h) and etcd's keys. */
#ifndef DLK_STORE_SESSION_ETCD_NAMES_H
#define DLK_STORE_SESSION_ETCD_NAMES_H

#include "store/session/etcd/wire/messages.h"

/* A node of the recipe as a key. */
struct dlk_etcd_node {
  struct dlk_buf key;
  int64_t created; /* its create_revision; 0: a stand-in's, or unknown */
};

/* path: of a node, or of one to be created. */
void dlk_etcd_node_of(struct dlk_etcd_node *n, const char *path);
/* When a stand-in's path says that it ends; 0: it is no stand-in's. */
int64_t dlk_etcd_until_ms(const char *path);
/* Appends the name, NUL-ended, of a key in its folder. */
void dlk_etcd_name(struct dlk_buf *out, struct dlk_etcd_bytes rest,
                   int64_t created);
/* Appends what ends a contender's name to `path`, with its NUL. */
void dlk_etcd_number(struct dlk_buf *out, int64_t created);

#endif
