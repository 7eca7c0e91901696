/* Tokens: what stands on the server for one acquisition. */
#ifndef DLK_STORE_REDIS_OP_TOKEN_H
#define DLK_STORE_REDIS_OP_TOKEN_H

#include "core/buf.h"
#include "core/map.h"
#include "store/store.h"

/* A token: 32 random digits, ':', 16 digits of the client, ':', the owner. */
#define DLK_REDIS_RANDOM 32
/* So many of them are the same in all votes of a Redlock's acquisition. */
#define DLK_REDIS_NAME 24
#define DLK_REDIS_CLIENT 16
#define DLK_REDIS_OWNER_AT 50
#define DLK_REDIS_OWNER_MAX (DLK_HOLDER_MAX - 1)
#define DLK_REDIS_TOKEN_MAX (DLK_REDIS_OWNER_AT + DLK_REDIS_OWNER_MAX)

struct dlk_redis_token {
  struct dlk_map_node node; /* in the map while messages for it are heard */
  uint8_t len;
  char text[DLK_REDIS_TOKEN_MAX + 1];
};

/* Those of the waits and holds of one client. */
struct dlk_redis_tokens {
  struct dlk_map map;
  char client[DLK_REDIS_CLIENT + 1];
};

/* A new one; messages for it are heard once it is put. */
void dlk_redis_token_make(struct dlk_redis_tokens *all, struct dlk_host *host,
                          struct dlk_redis_token *t, const char *owner);
void dlk_redis_token_put(struct dlk_redis_tokens *all,
                         struct dlk_redis_token *t);
void dlk_redis_token_drop(struct dlk_redis_tokens *all,
                          struct dlk_redis_token *t);
/* `to` is in the place of `from` from now on. */
void dlk_redis_token_move(struct dlk_redis_tokens *all,
                          struct dlk_redis_token *from,
                          struct dlk_redis_token *to);
struct dlk_redis_token *dlk_redis_token_find(struct dlk_redis_tokens *all,
                                             const char *text, size_t len);

bool dlk_redis_token_is_of(const struct dlk_redis_tokens *all, const char *text,
                           size_t len);

/* For the trace, as %s: its last random digits. */
struct dlk_redis_token_end {
  char text[5];
};
struct dlk_redis_token_end dlk_redis_token_end(const struct dlk_redis_token *t);

/* As an argument. */
void dlk_redis_put_token(struct dlk_buf *out, const struct dlk_redis_token *t);

/* The owner in a value of the lock's key; NULL: it is no token. */
const char *dlk_redis_owner_in(const char *value, size_t len,
                               size_t *owner_len);
#define DLK_REDIS_FOREIGN "another client"
/* The holder that a value names, for a message. */
void dlk_redis_holder_text(char out[DLK_HOLDER_MAX], const char *value,
                           size_t len);

#endif
